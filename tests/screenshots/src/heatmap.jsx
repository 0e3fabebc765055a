// A heatmap, drawn here because Grafana keeps its own inside the application.

import { FieldType, formattedValueToString, getValueFormat } from '@grafana/data';

import { AXIS_HEIGHT, positionOf, TimeAxis } from './axes.jsx';

const FONT_SIZE = 12;
const LEFT = 60;
// From few to many.
const ORANGES = ['#4a1d02', '#7f2704', '#a63603', '#d94801', '#f16913', '#fd8d3c', '#fdae6b', '#fdd0a2'];

export function Heatmap({ panel, frames, width, height, timeRange, step, theme }) {
  const { cellGap, color, filterValues, yAxis } = panel.options;
  const rows = frames.map((frame) => ({
    bound: frame.fields.find(({ type }) => type === FieldType.number).labels.le,
    cells: cellsOf(frame).filter(({ value }) => value > (filterValues?.le ?? 0)),
  }));
  const most = Math.max(...rows.flatMap(({ cells }) => cells.map(({ value }) => value)));
  const plot = { width: width - LEFT, height: height - AXIS_HEIGHT };
  const rowHeight = plot.height / rows.length;
  const cellWidth = positionOf(timeRange.from + step * 1000, timeRange, plot.width);
  return (
    <svg width={width} height={height} fontSize={FONT_SIZE} letterSpacing="0">
      {rows.map(({ bound, cells }, index) => (
        <g key={bound} transform={`translate(${LEFT} ${plot.height - (index + 1) * rowHeight})`}>
          <text x={-8} y={rowHeight / 2 + 4} textAnchor="end" fill={theme.colors.text.secondary}>
            {boundText(bound, yAxis?.unit ?? 'short')}
          </text>
          {cells.map(({ at, value }) => (
            <rect
              key={at}
              x={positionOf(at, timeRange, plot.width) - cellWidth}
              width={Math.max(1, cellWidth - cellGap)}
              height={rowHeight - cellGap}
              fill={colour((value / most) ** color.exponent)}
            />
          ))}
        </g>
      ))}
      <TimeAxis range={timeRange} left={LEFT} width={plot.width} top={plot.height} theme={theme} />
    </svg>
  );
}

function boundText(bound, unit) {
  return bound === '+Inf' ? bound : formattedValueToString(getValueFormat(unit)(Number(bound)));
}

function cellsOf({ fields }) {
  const [times, values] = fields;
  return times.values.map((at, index) => ({ at, value: values.values[index] }));
}

function colour(share) {
  return ORANGES[Math.min(ORANGES.length - 1, Math.floor(share * ORANGES.length))];
}
