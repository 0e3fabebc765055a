// A state timeline, drawn here because Grafana keeps its own inside the application.

import { FieldType, formattedValueToString, getFieldDisplayName } from '@grafana/data';
import { measureText, VizLegend } from '@grafana/ui';

import { AXIS_HEIGHT, positionOf, TimeAxis } from './axes.jsx';

const FONT_SIZE = 12;
const LEGEND_HEIGHT = 28;

export function StateTimeline({ panel, frames, width, height, timeRange, step, theme }) {
  const all = rowsOf(frames, step);
  const rows = all.slice(0, panel.options.perPage ?? all.length);
  const left = Math.max(...rows.map(({ name }) => measureText(name, FONT_SIZE).width)) + 10;
  const rowHeight = (height - AXIS_HEIGHT - LEGEND_HEIGHT) / rows.length;
  const bandHeight = rowHeight * panel.options.rowHeight;
  const place = (at) => left + positionOf(at, timeRange, width - left);
  return (
    <>
      <svg width={width} height={height - LEGEND_HEIGHT} fontSize={FONT_SIZE} letterSpacing="0">
        {rows.map(({ name, bands }, index) => (
          <g key={name} transform={`translate(0 ${index * rowHeight + (rowHeight - bandHeight) / 2})`}>
            <text y={bandHeight / 2 + 4} x={left - 8} textAnchor="end" fill={theme.colors.text.primary}>
              {name}
            </text>
            {bands.map((band) => (
              <Band key={band.from} {...{ band, place, panel, theme }} height={bandHeight} />
            ))}
          </g>
        ))}
        <TimeAxis
          range={timeRange}
          left={left}
          width={width - left}
          top={height - LEGEND_HEIGHT - AXIS_HEIGHT}
          theme={theme}
        />
      </svg>
      <VizLegend items={legendOf(rows)} displayMode="list" placement="bottom" />
    </>
  );
}

function Band({ band, place, height, panel, theme }) {
  const from = place(band.from);
  const width = place(band.to) - from;
  const hasRoom = measureText(band.text, FONT_SIZE).width + 8 < width;
  return (
    <>
      <rect
        x={from}
        width={Math.max(1, width)}
        height={height}
        fill={band.color}
        fillOpacity={(panel.fieldConfig.defaults.custom?.fillOpacity ?? 70) / 100}
      />
      {hasRoom && (
        <text x={from + 4} y={height / 2 + 4} fill={theme.colors.getContrastText(band.color)}>
          {band.text}
        </text>
      )}
    </>
  );
}

function rowsOf(frames, step) {
  return frames.flatMap((frame) => {
    const times = frame.fields.find(({ type }) => type === FieldType.time).values;
    return frame.fields
      .filter(({ type }) => type === FieldType.number)
      .map((field) => ({
        name: getFieldDisplayName(field, frame, frames),
        bands: bandsOf(times, field, step),
      }));
  });
}

// Merges neighbours in the same state; where samples are missing, nothing is drawn.
function bandsOf(times, field, step) {
  const bands = [];
  times.forEach((at, index) => {
    const { color, ...display } = field.display(field.values[index]);
    const text = formattedValueToString(display);
    const last = bands.at(-1);
    const to = at + step * 1000;
    if (last?.text === text && last.to >= at) {
      last.to = to;
    } else {
      bands.push({ from: at, to, text, color });
    }
  });
  return bands;
}

function legendOf(rows) {
  const colours = new Map(rows.flatMap(({ bands }) => bands.map(({ text, color }) => [text, color])));
  return [...colours].map(([label, color]) => ({ label, color, yAxis: 1 }));
}
