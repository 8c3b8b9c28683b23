// Validates an OpenAPI document.
import { Validator } from '@seriousme/openapi-schema-validator';

const validator = new Validator();
const { valid, errors } = await validator.validate(process.argv[2]);
console.log(JSON.stringify({ valid, version: validator.version, errors }));
