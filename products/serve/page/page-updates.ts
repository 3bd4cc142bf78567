/**
 * Elements that page.js keeps up to date: each says in an attribute which of the values it shows. A list has the template of
 * its rows, made by the same function as the rows themselves.
 */
import { type Html, html } from '../../kit/html.ts';

/** Its text is the value `name`. */
export const text = (name: string, value: string): Html => html`<span data-text="${name}">${value}</span>`;

/** A table cell with a value; its column's name is shown where a narrow page has no heads. */
export function cell(label: string, name: string, value: string, kind = ''): Html {
  return html`<td data-label="${label}" class="${kind}" data-text="${name}">${value}</td>`;
}

/** What an element needs to be hidden while the value `name` is empty. */
export function shownBy(name: string, value: string): Html {
  return value === '' ? html` data-show="${name}" hidden` : html` data-show="${name}"`;
}

/** The rows of `items`, for the inside of an element with `data-list`. */
export function rows<T>(items: readonly T[], blank: T, row: (item: T) => Html): Html {
  return html`<template>${row(blank)}</template>${items.map(row)}`;
}

export interface Column {
  label: string;
  isNumber?: boolean;
}

export function table(name: string, caption: string, columns: readonly (Column | null)[], body: Html): Html {
  const heads = columns
    .filter(column => column !== null)
    .map(({ label, isNumber }) => html`<th scope="col" class="${isNumber ? 'n' : ''}">${label}</th>`);
  return html`<table class="rows"><caption class="unseen">${caption}</caption><thead><tr>${heads}</tr></thead>
<tbody data-list="${name}">${body}</tbody></table>`;
}

/** Done and failed, of 100. */
export function bar(good: number, bad: number, words: string): Html {
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="${words}">
<rect class="good" data-width="good" x="0" y="0" height="8" width="${good.toFixed(2)}"></rect>
<rect class="bad" data-x="good" data-width="bad" x="${good.toFixed(2)}" y="0" height="8" width="${bad.toFixed(2)}"></rect></svg>`;
}
