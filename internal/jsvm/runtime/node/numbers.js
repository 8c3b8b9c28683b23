// Buffer's methods that read and write numbers.
import { badRange, badType, failure } from "../web/base.js";

const kinds = {
  UInt8: ["Uint8", 1],
  Int8: ["Int8", 1],
  UInt16: ["Uint16", 2],
  Int16: ["Int16", 2],
  UInt32: ["Uint32", 4],
  Int32: ["Int32", 4],
  BigUInt64: ["BigUint64", 8],
  BigInt64: ["BigInt64", 8],
  Float: ["Float32", 4],
  Double: ["Float64", 8],
};

function outOfRange(what, range, value) {
  return badRange(`The value of "${what}" is out of range. It must be ${range}. Received ${value}`);
}

/** view checks an offset and returns a DataView from there. */
function view(buffer, offset, width) {
  if (typeof offset !== "number") throw badType('The "offset" argument must be of type number');
  if (!Number.isInteger(offset)) throw outOfRange("offset", "an integer", offset);
  if (width > buffer.length) {
    throw failure(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
  }
  if (offset < 0 || offset + width > buffer.length) {
    throw outOfRange("offset", `>= 0 and <= ${buffer.length - width}`, offset);
  }
  return new DataView(buffer.buffer, buffer.byteOffset + offset, width);
}

function check(value, low, high) {
  if (value < low || value > high) throw outOfRange("value", `>= ${low} and <= ${high}`, value);
  return value;
}

function limits(type, bits) {
  if (type.startsWith("Float")) return null;
  const big = type.startsWith("Big");
  const low = type.includes("Uint") ? 0n : -(2n ** BigInt(bits - 1));
  const high = low + 2n ** BigInt(bits) - 1n;
  return big ? [low, high] : [Number(low), Number(high)];
}

function* fixed(name, [type, width]) {
  const range = limits(type, width * 8);
  for (const order of width === 1 ? [""] : ["LE", "BE"]) {
    const little = order === "LE";
    yield [`read${name}${order}`, function (offset = 0) {
      return view(this, offset, width)[`get${type}`](0, little);
    }];
    yield [`write${name}${order}`, function (value, offset = 0) {
      const target = view(this, offset, width);
      const number = type.startsWith("Big") ? value : Number(value);
      target[`set${type}`](0, range ? check(number, ...range) : number, little);
      return offset + width;
    }];
  }
}

function checkWidth(width) {
  if (!Number.isInteger(width) || width < 1 || width > 6) throw outOfRange("byteLength", ">= 1 and <= 6", width);
}

function* variable(signed, order) {
  const name = `${signed ? "Int" : "UInt"}${order}`;
  const place = (i, width) => (order === "LE" ? i : width - 1 - i);
  yield [`read${name}`, function (offset, width) {
    checkWidth(width);
    const source = view(this, offset, width);
    let value = 0;
    for (let i = 0; i < width; i++) value += source.getUint8(place(i, width)) * 256 ** i;
    return signed && value >= 256 ** width / 2 ? value - 256 ** width : value;
  }];
  yield [`write${name}`, function (value, offset, width) {
    checkWidth(width);
    const target = view(this, offset, width);
    const top = 256 ** width;
    let rest = Math.trunc(signed ? check(+value, -top / 2, top / 2 - 1) : check(+value, 0, top - 1));
    if (rest < 0) rest += top;
    for (let i = 0; i < width; i++) target.setUint8(place(i, width), Math.floor(rest / 256 ** i) % 256);
    return offset + width;
  }];
}

/** numberMethods maps names to methods. Names with UInt have an alias with Uint. */
export function* numberMethods() {
  const all = Object.entries(kinds).flatMap(([name, kind]) => [...fixed(name, kind)]);
  for (const signed of [true, false]) for (const order of ["LE", "BE"]) all.push(...variable(signed, order));
  for (const [name, method] of all) {
    Object.defineProperty(method, "name", { value: name });
    yield [name, method];
    if (name.includes("UInt")) yield [name.replace("UInt", "Uint"), method];
  }
}
