// Draws the panels with Grafana's own components, where it has published them for others.

import { FieldType, getDisplayValueAlignmentFactors, getFieldDisplayValues } from '@grafana/data';
import { BarGauge, BigValue, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

import { Heatmap } from './heatmap.jsx';
import { StateTimeline } from './timeline.jsx';

const KINDS = {
  bargauge: Bars,
  heatmap: Heatmap,
  stat: Numbers,
  'state-timeline': StateTimeline,
  table: Listing,
  timeseries: Lines,
};

export function Visualisation(props) {
  const Kind = KINDS[props.panel.type];
  if (!Kind) {
    throw new Error(`no panel of type ${props.panel.type} can be drawn`);
  }
  // A stat panel says by itself that it has nothing.
  const hasNothing = isEmpty(props.frames) && props.panel.type !== 'stat';
  return hasNothing ? <NoData {...props} /> : <Kind {...props} />;
}

export function isEmpty(frames) {
  return !frames.some((frame) => frame.length > 0 && frame.fields.some(({ type }) => type !== FieldType.time));
}

function NoData({ panel, width, height }) {
  const text = panel.fieldConfig?.defaults.noValue ?? 'No data';
  return (
    <div className="no-data" style={{ width, height }}>
      {text}
    </div>
  );
}

function Numbers({ panel, frames, width, height, theme, replaceVariables }) {
  const { colorMode, justifyMode, orientation, textMode, wideLayout } = panel.options;
  const values = shownValues(panel, frames, theme, replaceVariables);
  return (
    <VizRepeater
      getValues={() => values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      source={values}
      width={width}
      height={height}
      itemSpacing={3}
      orientation={orientation}
      autoGrid
      renderCounter={0}
      renderValue={({ value, width, height, alignmentFactors, count }) => (
        <BigValue
          value={value.display}
          count={count}
          width={width}
          height={height}
          theme={theme}
          colorMode={colorMode}
          justifyMode={justifyMode}
          textMode={textMode}
          wideLayout={wideLayout}
          alignmentFactors={alignmentFactors}
        />
      )}
    />
  );
}

function Bars({ panel, frames, width, height, theme, replaceVariables }) {
  const { displayMode, namePlacement, orientation, showUnfilled, sizing, valueMode } = panel.options;
  const values = shownValues(panel, frames, theme, replaceVariables);
  return (
    <VizRepeater
      getValues={() => values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      source={values}
      width={width}
      height={height}
      minVizHeight={16}
      maxVizHeight={sizing === 'manual' ? panel.options.maxVizHeight : 300}
      minVizWidth={8}
      itemSpacing={8}
      orientation={orientation}
      renderCounter={0}
      renderValue={({ value, width, height, alignmentFactors, orientation }) => (
        <BarGauge
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          width={width}
          height={height}
          theme={theme}
          orientation={orientation}
          displayMode={displayMode}
          namePlacement={namePlacement}
          valueDisplayMode={valueMode}
          showUnfilled={showUnfilled}
          alignmentFactors={alignmentFactors}
          itemSpacing={8}
          lcdCellWidth={12}
        />
      )}
    />
  );
}

function shownValues(panel, frames, theme, replaceVariables) {
  return getFieldDisplayValues({
    data: frames,
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables,
    theme,
    timeZone: 'utc',
  });
}

function Lines({ panel, frames, width, height, timeRange }) {
  return (
    <TimeSeries
      frames={frames}
      width={width}
      height={height}
      timeRange={timeRange}
      timeZone="utc"
      legend={panel.options.legend}
      options={panel.options}
    />
  );
}

function Listing({ panel, frames, width, height }) {
  const { cellHeight = 'sm', showHeader = true, sortBy = [] } = panel.options ?? {};
  return (
    <TableNG
      data={frames[0]}
      width={width}
      height={height}
      noHeader={!showHeader}
      initialSortBy={sortBy}
      cellHeight={cellHeight}
      enableVirtualization={false}
    />
  );
}
