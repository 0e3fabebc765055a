// What stands for the variables of a dashboard: in queries, titles and links.

import { ask } from './prometheus.js';

const REFERENCE = /\$\{?(\w+)(?::\w+)?\}?/g;

// Puts values in the place of `$name` and `${name}`; an unknown name stays.
export function substitute(text, values) {
  return text.replace(REFERENCE, (reference, name) => values[name] ?? reference);
}

// Chooses a value for each variable, in order, because a later one may use those before it.
export async function chosenValues(variables, given, context) {
  const values = {};
  for (const variable of variables) {
    values[variable.name] = given[variable.name] ?? (await chosen(variable, values, context));
  }
  return values;
}

async function chosen(variable, values, context) {
  if (variable.type !== 'query') {
    return '';
  }
  if (variable.includeAll) {
    return variable.allValue ?? '.*';
  }
  const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(variable.query.query);
  const found = await ask(context.prometheus, `label/${label}/values`, {
    'match[]': substitute(selector, values),
  });
  return found[0] ?? '';
}
