// Asks Prometheus, and makes of its answers the frames that Grafana's data source makes of them.

import { FieldType } from '@grafana/data';

export async function ask(prometheus, path, parameters) {
  const answer = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`);
  const { status, data, error } = await answer.json();
  if (status !== 'success') {
    throw new Error(error);
  }
  return data;
}

// Carries out one query of a panel.
export async function frames(target, query, context, isOneOfSeveral) {
  const { from, to, step, prometheus } = context;
  const { result } = target.instant
    ? await ask(prometheus, 'query', { query, time: to })
    : await ask(prometheus, 'query_range', { query, start: from, end: to, step });
  const series = result.map(({ metric, value, values }) => ({
    labels: metric,
    points: (values ?? [value]).map(([seconds, text]) => [seconds * 1000, number(text)]),
  }));
  switch (target.format) {
    case 'table':
      return series.length ? [tableFrame(series, target, isOneOfSeveral)] : [];
    case 'heatmap':
      return histogramFrames(series, target, step);
    default:
      return series.map((one) => seriesFrame(one, target, step));
  }
}

function number(text) {
  const value = text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text);
  return Number.isNaN(value) ? null : value;
}

function seriesFrame({ labels, points }, target, step) {
  const name = legend(target.legendFormat, labels);
  const times = points.map(([at]) => at);
  return frame(target, [
    { name: 'Time', type: FieldType.time, values: times, config: { interval: step * 1000 } },
    {
      name: 'Value',
      type: FieldType.number,
      labels,
      values: points.map(([, value]) => value),
      config: name ? { displayNameFromDS: name } : {},
    },
  ]);
}

function legend(format, labels) {
  return (format ?? '').replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? '').trim();
}

function tableFrame(series, target, isOneOfSeveral) {
  const names = [...new Set(series.flatMap(({ labels }) => Object.keys(labels)))].sort();
  const valueName = isOneOfSeveral ? `Value #${target.refId}` : 'Value';
  const column = (index) => series.map(({ points }) => points[0][index]);
  return frame(target, [
    { name: 'Time', type: FieldType.time, values: column(0), config: {} },
    ...names.map((name) => ({
      name,
      type: FieldType.string,
      values: series.map(({ labels }) => labels[name] ?? ''),
      config: { filterable: true },
    })),
    { name: valueName, type: FieldType.number, values: column(1), config: {} },
  ]);
}

// Buckets count everything below their bound, and a heatmap shows what is between two bounds.
function histogramFrames(series, target, step) {
  const bound = ({ labels }) => number(labels.le);
  const sorted = [...series].sort((one, other) => bound(one) - bound(other));
  return sorted.map((one, index) => {
    const below = new Map(index ? sorted[index - 1].points : []);
    const points = one.points.map(([at, value]) => [at, Math.max(0, value - (below.get(at) ?? 0))]);
    return seriesFrame({ labels: one.labels, points }, target, step);
  });
}

function frame(target, fields) {
  return { refId: target.refId, fields, length: fields[0].values.length };
}
