import { toErrorList, type RJSFSchema, type ValidatorType } from "@rjsf/utils";
import { check, fits } from "./check";
import { fieldErrors } from "./issues";
import type { JsonObject } from "../../api/types";

/** A validator for the form library that does not use eval. */
export const validator: ValidatorType<unknown, RJSFSchema> = {
  isValid: (schema, value) => fits(schema, value),
  validateFormData: (value, schema) => {
    const errorSchema = fieldErrors(check(schema as JsonObject, (value ?? {}) as JsonObject));
    return { errors: toErrorList<unknown>(errorSchema), errorSchema };
  },
  rawValidation: (schema, value) => ({ errors: check(schema as JsonObject, (value ?? {}) as JsonObject) as never[] }),
};
