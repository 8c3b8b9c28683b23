// Counts the o200k tokens of texts: reads a JSON array of strings, and writes an array of numbers.
// npm install --prefix bench/node gpt-tokenizer@2.9.0
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";

let input = "";
for await (const chunk of process.stdin) input += chunk;
process.stdout.write(JSON.stringify(JSON.parse(input).map((text) => countTokens(text))));
