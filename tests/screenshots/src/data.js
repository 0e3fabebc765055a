// Everything that a panel shows: its queries carried out, its transformations applied.

import { standardTransformers, standardTransformersRegistry, transformDataFrame } from '@grafana/data';
import { lastValueFrom } from 'rxjs';

import { configured } from './fields.js';
import { frames } from './prometheus.js';
import { substitute } from './variables.js';

// Some are there twice, under an older name.
const TRANSFORMERS = new Map(Object.values(standardTransformers).map((each) => [each.id, each]));

standardTransformersRegistry.setInit(() =>
  [...TRANSFORMERS].map(([id, each]) => ({
    id,
    name: each.name,
    transformation: () => Promise.resolve(each),
  }))
);

// Returns the frames of a panel, or the error that its user would see.
export async function panelData(panel, context) {
  try {
    const its = { ...context, ...steps(panel, context) };
    const asked = await Promise.all(
      panel.targets.map((target) =>
        frames(target, substitute(target.expr, its.values), its, panel.targets.length > 1)
      )
    );
    const transformed = await lastValueFrom(
      transformDataFrame(panel.transformations ?? [], asked.flat(), { interpolate: (text) => text })
    );
    return { frames: configured(panel, transformed, context.theme, replacing(its.values)), step: its.step };
  } catch (error) {
    return { frames: [], error: String(error) };
  }
}

// As Grafana computes them from the width of a panel and the interval between two scrapes.
function steps(panel, { from, to, values, scrapeSeconds, minStep }) {
  const points = panel.maxDataPoints ?? panel.gridPos.w * 60;
  const step = Math.max(minStep, Math.ceil((to - from) / points));
  const rate = Math.max(step + scrapeSeconds, 4 * scrapeSeconds);
  return {
    step,
    values: {
      ...values,
      __interval: `${step}s`,
      __range: `${Math.round(to - from)}s`,
      __rate_interval: `${rate}s`,
    },
  };
}

function replacing(values) {
  return (text, scoped) => {
    const labels = scoped?.__dataContext?.value.field.labels ?? {};
    const named = text.replace(/\$\{__field\.labels\.(\w+)\}/g, (_, label) => labels[label] ?? '');
    return substitute(named, values);
  };
}
