// Gives fields the configuration that the dashboard has for them, as Grafana's panels do.

import { applyFieldOverrides, cacheFieldDisplayNames, FieldConfigOptionsRegistry } from '@grafana/data';
import { defaultsDeep } from 'lodash';

const STANDARD = [
  'unit', 'min', 'max', 'decimals', 'displayName', 'color', 'mappings', 'thresholds', 'noValue', 'links',
];

const GRAPH = {
  drawStyle: 'line',
  lineInterpolation: 'linear',
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: 'none',
  showPoints: 'auto',
  pointSize: 5,
  barAlignment: 0,
  barWidthFactor: 0.6,
  axisPlacement: 'auto',
  axisColorMode: 'text',
  scaleDistribution: { type: 'linear' },
  spanNulls: false,
  hideFrom: { legend: false, tooltip: false, viz: false },
  stacking: { mode: 'none', group: 'A' },
  thresholdsStyle: { mode: 'off' },
};
const TABLE = { align: 'auto', cellOptions: { type: 'auto' }, inspect: false, minWidth: 60 };

// What a panel of each kind takes where its dashboard says nothing.
const DEFAULTS = {
  bargauge: { color: { mode: 'thresholds' } },
  stat: { color: { mode: 'thresholds' } },
  table: { color: { mode: 'thresholds' }, custom: TABLE },
  timeseries: { color: { mode: 'palette-classic' }, custom: GRAPH },
};

export function configured(panel, frames, theme, replaceVariables) {
  const { defaults = {}, overrides = [] } = structuredClone(panel.fieldConfig ?? {});
  const fieldConfig = { defaults: defaultsDeep(defaults, DEFAULTS[panel.type] ?? {}), overrides };
  fieldConfig.defaults.thresholds?.steps.forEach((step) => {
    step.value ??= -Infinity;
  });
  const result = applyFieldOverrides({
    data: frames,
    fieldConfig,
    fieldConfigRegistry: registry(fieldConfig),
    replaceVariables,
    theme,
    timeZone: 'utc',
  });
  cacheFieldDisplayNames(result);
  return result;
}

// Grafana's own registry is part of the application; all that it does here is to copy.
function registry({ defaults, overrides }) {
  const properties = overrides.flatMap((override) => override.properties.map(({ id }) => id));
  const custom = new Set([
    ...Object.keys(defaults.custom ?? {}),
    ...properties.filter((id) => id.startsWith('custom.')).map((id) => id.slice('custom.'.length)),
  ]);
  const item = (path, isCustom) => ({
    id: isCustom ? `custom.${path}` : path,
    path,
    name: path,
    isCustom,
    process: (value) => value,
    shouldApply: () => true,
  });
  const options = new FieldConfigOptionsRegistry();
  options.setInit(() => [
    ...STANDARD.map((path) => item(path, false)),
    ...[...custom].map((path) => item(path, true)),
  ]);
  return options;
}
