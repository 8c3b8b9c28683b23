// Time zones: offsets from the host, and English names.

import { call } from "../core.js";
import { table } from "./common.js";

const universal = /^(?:utc|gmt|zulu|uct|universal|greenwich|etc\/(?:utc|gmt|gmt[+-]?0|uct|universal|zulu|greenwich)|gmt[+-]?0)$/i;
const fixed = /^([+-])([01]\d|2[0-3])(?::?([0-5]\d))?$/;

/** zoneOf returns a zone {name, at(ms)}; at returns {offset, abbreviation}. */
export function zoneOf(name) {
  if (universal.test(name)) return { name: "UTC", at: () => ({ offset: 0, abbreviation: "UTC" }) };
  const m = fixed.exec(name);
  if (m) {
    const offset = (m[1] === "-" ? -60 : 60) * (Number(m[2]) * 60 + Number(m[3] ?? 0));
    const sign = offset < 0 ? "-" : "+";
    return { name: `${sign}${m[2]}:${m[3] ?? "00"}`, at: () => ({ offset, abbreviation: "" }) };
  }
  if (/^[a-z][\w+-]*(?:\/[\w+-]+)*$/i.test(name) && !/^local$/i.test(name)) {
    for (const spelling of new Set([name, titleCase(name)])) {
      if (exists(spelling)) return { name: spelling, at: (ms) => ask(spelling, ms) };
    }
  }
  throw new RangeError(`Invalid time zone specified: ${name}`);
}

function ask(name, ms) {
  return JSON.parse(call("zone", name, ms));
}

function exists(name) {
  try {
    ask(name, 0);
    return true;
  } catch {
    return false;
  }
}

/** titleCase spells america/new_york as in the time zone database. */
function titleCase(name) {
  if (!name.includes("/")) return name.toUpperCase();
  return name
    .toLowerCase()
    .replace(/(^|[/_-])([a-z])/g, (_, before, letter) => before + letter.toUpperCase())
    .replace(/([_-])(Of|Es|Au)(?=[_-])/g, (_, before, word) => before + word.toLowerCase())
    .replace(/^Us\//, "US/")
    .replace(/^Etc\/Gmt/, "Etc/GMT");
}

// abbreviation+hours of American zones = name. Generic names do not contain Standard or Daylight.
const american = table(
  "EST-5=Eastern Standard;EDT-4=Eastern Daylight;CST-6=Central Standard;CDT-5=Central Daylight;MST-7=Mountain Standard;" +
    "MDT-6=Mountain Daylight;PST-8=Pacific Standard;PDT-7=Pacific Daylight;AKST-9=Alaska Standard;AKDT-8=Alaska Daylight;" +
    "HST-10=Hawaii-Aleutian Standard;HDT-9=Hawaii-Aleutian Daylight;AST-4=Atlantic Standard;ADT-3=Atlantic Daylight",
);

// The same for abbreviations that have only a long name.
const elsewhere = table(
  "GMT+0=Greenwich Mean;BST+1=British Summer;IST+1=Irish Standard;WET+0=Western European Standard;WEST+1=Western European Summer;" +
    "CET+1=Central European Standard;CEST+2=Central European Summer;EET+2=Eastern European Standard;EEST+3=Eastern European Summer;" +
    "MSK+3=Moscow Standard;IST+2=Israel Standard;IDT+3=Israel Daylight;SAST+2=South Africa Standard;EAT+3=East Africa;CAT+2=Central Africa;" +
    "WAT+1=West Africa;PKT+5=Pakistan Standard;IST+5.5=India Standard;WIB+7=Western Indonesia;WITA+8=Central Indonesia;" +
    "WIT+9=Eastern Indonesia;CST+8=China Standard;HKT+8=Hong Kong Standard;PST+8=Philippine Standard;AWST+8=Australian Western Standard;" +
    "JST+9=Japan Standard;KST+9=Korean Standard;ACST+9.5=Australian Central Standard;ACDT+10.5=Australian Central Daylight;" +
    "AEST+10=Australian Eastern Standard;AEDT+11=Australian Eastern Daylight;NZST+12=New Zealand Standard;NZDT+13=New Zealand Daylight;" +
    "ChST+10=Chamorro Standard;SST-11=Samoa Standard;" +
    "NST-3.5=Newfoundland Standard;NDT-2.5=Newfoundland Daylight;CST-5=Cuba Standard;CDT-4=Cuba Daylight",
);

// Zones whose abbreviation is numeric or ambiguous.
const numbered = table(
  "America/Sao_Paulo=Brasilia Standard;America/Argentina/Buenos_Aires=Argentina Standard;America/Buenos_Aires=Argentina Standard;" +
    "America/Bogota=Colombia Standard;America/Lima=Peru Standard;America/Caracas=Venezuela;America/La_Paz=Bolivia;" +
    "America/Montevideo=Uruguay Standard;Asia/Dubai=Gulf Standard;Asia/Riyadh=Arabian Standard;Asia/Qatar=Arabian Standard;" +
    "Asia/Baghdad=Arabian Standard;Asia/Kuwait=Arabian Standard;Asia/Tehran=Iran Standard;Asia/Kabul=Afghanistan;" +
    "Asia/Kathmandu=Nepal;Asia/Katmandu=Nepal;Asia/Dhaka=Bangladesh Standard;Asia/Bangkok=Indochina;Asia/Ho_Chi_Minh=Indochina;" +
    "Asia/Singapore=Singapore Standard;Asia/Kuala_Lumpur=Malaysia;Asia/Tashkent=Uzbekistan Standard;Asia/Yangon=Myanmar;Asia/Taipei=Taiwan Standard;Europe/Istanbul=Türkiye Standard",
);

/** signedHours formats an offset as +5:30, or as +05:30 if long is set. */
function signedHours(offset, long) {
  const seconds = Math.abs(offset);
  const hours = String(Math.floor(seconds / 3600));
  const minutes = Math.floor(seconds / 60) % 60;
  const rest = seconds % 60;
  let text = (offset < 0 ? "-" : "+") + (long ? hours.padStart(2, "0") : hours);
  if (long || minutes || rest) text += ":" + String(minutes).padStart(2, "0");
  if (rest) text += ":" + String(rest).padStart(2, "0");
  return text;
}

/** gmt returns GMT+1, or GMT+01:00 if long is set. */
function gmt(offset, long) {
  return "GMT" + signedHours(offset, long);
}

const americanZones =
  /^(?:America|US|Canada|Mexico)\/|^Pacific\/(?:Honolulu|Johnston)$|^Atlantic\/Bermuda$|^(?:[ECMP]ST\d[ECMP]DT|[EMH]ST|Navajo|Jamaica)$/;

/** americanName returns the long name of a zone with an American abbreviation. */
function americanName(zone, { offset, abbreviation }) {
  if (/Dawson$|Whitehorse|Yukon|Hermosillo|Mazatlan|BajaSur/.test(zone.name)) return undefined;
  if (!americanZones.test(zone.name)) return undefined;
  return american().get(abbreviation + signed(offset / 3600));
}

function signed(hours) {
  return hours < 0 ? String(hours) : "+" + hours;
}

function shortName(zone, at, british) {
  const { offset, abbreviation } = at;
  if (zone.name === "UTC") return "UTC";
  if (british) return /^(?:GMT|BST|[CEW]ES?T)$/.test(abbreviation) && !zone.name.startsWith("America/") ? abbreviation : gmt(offset);
  if (americanName(zone, at)) {
    return /Adak|Atka|Aleutian/.test(zone.name) ? abbreviation.replace("H", "HA") : abbreviation;
  }
  return offset === 0 && abbreviation === "GMT" ? "GMT" : gmt(offset);
}

function longName(zone, at) {
  if (zone.name === "UTC") return "Coordinated Universal Time";
  const name = americanName(zone, at) ?? numbered().get(zone.name) ?? elsewhere().get(at.abbreviation + signed(at.offset / 3600));
  return name ? name + " Time" : gmt(at.offset, true);
}

/** hasSummer reports whether a zone has daylight saving time in the year around a time. */
function hasSummer(zone, ms) {
  const quarter = 7889400000;
  const here = zone.at(ms).offset;
  return [-2, -1, 1, 2].some((n) => zone.at(ms + n * quarter).offset !== here);
}

function genericName(zone, ms, at, long) {
  if (zone.name === "UTC") return gmt(0, long);
  const name = long ? longName(zone, at) : shortName(zone, at);
  if (!hasSummer(zone, ms)) return name;
  if (long) return name.replace(/ (?:Standard|Daylight|Summer) /, " ");
  return americanName(zone, at) ? name.replace(/[SD]T$/, "T") : name;
}

/** zoneName returns a zone's name in one of the styles of timeZoneName. */
export function zoneName(zone, ms, style, british) {
  const at = zone.at(ms);
  switch (style) {
    case "short": return shortName(zone, at, british);
    case "long": return longName(zone, at);
    case "shortOffset": return gmt(at.offset);
    case "longOffset": return gmt(at.offset, true);
    default: return genericName(zone, ms, at, style === "longGeneric");
  }
}

/** commonZones returns the zones for supportedValuesOf. The host supports many more. */
export const commonZones = () =>
  ("Africa/Cairo Africa/Johannesburg Africa/Lagos Africa/Nairobi America/Anchorage America/Argentina/Buenos_Aires America/Bogota " +
    "America/Chicago America/Denver America/Halifax America/Los_Angeles America/Mexico_City America/New_York America/Phoenix " +
    "America/Sao_Paulo America/Toronto America/Vancouver Asia/Bangkok Asia/Dubai Asia/Hong_Kong Asia/Jakarta Asia/Jerusalem " +
    "Asia/Karachi Asia/Kolkata Asia/Manila Asia/Seoul Asia/Shanghai Asia/Singapore Asia/Taipei Asia/Tokyo Australia/Brisbane " +
    "Australia/Melbourne Australia/Perth Australia/Sydney Europe/Amsterdam Europe/Athens Europe/Berlin Europe/Dublin Europe/Istanbul " +
    "Europe/Kyiv Europe/Lisbon Europe/London Europe/Madrid Europe/Moscow Europe/Paris Europe/Rome Europe/Stockholm Europe/Vienna " +
    "Europe/Warsaw Europe/Zurich Pacific/Auckland Pacific/Honolulu UTC").split(" ");
