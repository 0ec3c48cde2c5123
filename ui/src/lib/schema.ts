/** A first check of a payload against the JSON Schema that a worker has registered for its type. */

export interface PayloadSchema {
  type?: string | string[];
  properties?: Record<string, PayloadSchema>;
  required?: string[];
  additionalProperties?: boolean | PayloadSchema;
  items?: PayloadSchema;
  enum?: unknown[];
  anyOf?: PayloadSchema[];
  $ref?: string;
}

/** Problems beyond these are left out. */
const MOST = 8;

/** Names what does not fit, each with the path to it. What the schema says in other words than these is not checked. */
export function misfits(value: unknown, schema: PayloadSchema, path = "payload"): string[] {
  const found: string[] = [];
  if (value === undefined) return found;
  if (schema.$ref !== undefined || schema.anyOf !== undefined) return found;
  const types = schema.type === undefined ? [] : Array.isArray(schema.type) ? schema.type : [schema.type];
  if (types.length > 0 && !types.some((type) => isOf(value, type))) return [`${path}: ${types.join(" or ")} is expected`];
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${path}: one of ${schema.enum.map((one) => JSON.stringify(one)).join(", ")} is expected`];
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) if (schema.items) found.push(...misfits(item, schema.items, `${path}[${index}]`));
  } else if (typeof value === "object" && value !== null) {
    const fields = value as Record<string, unknown>;
    for (const name of schema.required ?? []) if (!(name in fields)) found.push(`${path}.${name} is missing`);
    for (const [name, item] of Object.entries(fields)) {
      const expected = schema.properties?.[name];
      if (expected) found.push(...misfits(item, expected, `${path}.${name}`));
      else if (schema.properties && schema.additionalProperties === false) found.push(`${path}.${name} is not known`);
    }
  }
  return found.slice(0, MOST);
}

function isOf(value: unknown, type: string): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return typeof value === "number" && Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/** Writes what a payload has, in short: `amount: integer, card: string (optional)`. */
export function shortOf(schema: PayloadSchema): string {
  return Object.entries(schema.properties ?? {})
    .map(([name, one]) => `${name}: ${Array.isArray(one.type) ? one.type.join(" or ") : (one.type ?? "any")}${schema.required?.includes(name) ? "" : " (optional)"}`)
    .join(", ");
}
