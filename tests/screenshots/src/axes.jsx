// What the two kinds of panels that Grafana has published no component for have in common.

import { dateTimeFormat } from '@grafana/data';

const TICK_PIXELS = 90;
const TICK_SECONDS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600];

export const AXIS_HEIGHT = 22;

export function TimeAxis({ range, left, width, top, theme }) {
  const seconds = (range.to - range.from) / 1000;
  const step = TICK_SECONDS.find((one) => (seconds / one) * TICK_PIXELS <= width) ?? 86400;
  const first = Math.ceil(range.from.valueOf() / 1000 / step) * step;
  const ticks = [];
  for (let at = first; positionOf(at * 1000, range, width) < width - TICK_PIXELS / 3; at += step) {
    ticks.push(at * 1000);
  }
  return ticks.map((at) => (
    <text
      key={at}
      x={left + positionOf(at, range, width)}
      y={top + 15}
      textAnchor="middle"
      fill={theme.colors.text.secondary}
    >
      {dateTimeFormat(at, { format: step < 60 ? 'HH:mm:ss' : 'HH:mm', timeZone: 'utc' })}
    </text>
  ));
}

export function positionOf(at, range, width) {
  return ((at - range.from) / (range.to - range.from)) * width;
}
