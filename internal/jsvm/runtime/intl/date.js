// Intl.DateTimeFormat for American and British English.

import { callable, choice, flag, integer, joinParts, optionsObject, resolveLocale } from "./common.js";
import { markSource } from "./number.js";
import { zoneName, zoneOf } from "./zones.js";

const months = "January February March April May June July August September October November December".split(" ");
const weekdays = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const eras = { short: ["BC", "AD"], long: ["Before Christ", "Anno Domini"], narrow: ["B", "A"] };

const texts = ["narrow", "short", "long"];
const numbers = ["2-digit", "numeric"];
const fieldValues = {
  weekday: texts, era: texts, year: numbers, month: [...numbers, ...texts], day: numbers, dayPeriod: texts,
  hour: numbers, minute: numbers, second: numbers,
  timeZoneName: ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"],
};
const fieldOrder = [
  "weekday", "era", "year", "month", "day", "dayPeriod", "hour", "minute", "second", "fractionalSecondDigits", "timeZoneName",
];
const dateFields = ["weekday", "year", "month", "day"];
const timeFields = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];

// A template is text with {field} placeholders, named as in formatToParts.

const isText = (width) => texts.includes(width);

/** dayMonthYear returns the template for month, day and year, or "" if there are none. */
function dayMonthYear({ year, month, day }, british) {
  const text = isText(month);
  if (!month && year === "2-digit" && day === "numeric") return "{day} {year}";
  if (!month) return year && day ? "{year} (day: {day})" : year ? "{year}" : day ? "{day}" : "";
  if (!day) return "{month}" + (year ? (text ? " {year}" : "/{year}") : "");
  const separator = text ? " " : "/";
  if (british) return `{day}${separator}{month}` + (year ? `${separator}{year}` : "");
  return `{month}${separator}{day}` + (year ? (text ? ", {year}" : "/{year}") : "");
}

/** appendsMonth reports whether the month is put in parentheses because its width differs from the weekday's. */
function appendsMonth({ weekday, month }) {
  if (weekday === "short") return month === "2-digit" || month === "long" || month === "narrow";
  return weekday === "long" && month === "narrow";
}

/** dateTemplate returns the template for all date fields. */
function dateTemplate(f, british) {
  const { weekday, era, year, month, day } = f;
  if (era && month && !day && !year) {
    return weekday && appendsMonth(f) ? "{era} {weekday}" : "{era} (month: {month})";
  }
  if (weekday === "short" && year === "2-digit" && !month && !day && !era) return "{weekday} {year}";
  if (weekday && day && !month) {
    const both = british ? "{weekday} {day}" : "{day} {weekday}";
    if (year && era) return `{year} {era} (day: ${both})`;
    return both + (year ? " {year}" : "") + (era ? " {era}" : "");
  }
  if (day && era && !month) return (year ? "{year} " : "") + "{era} (day: {day})";
  if (weekday && month && !day && !year && appendsMonth(f)) return "{weekday} (month: {month})";
  let template = dayMonthYear(f, british);
  if (era) template += template ? " {era}" : "{era}";
  if (!weekday) return template;
  if (month && day) return (british && !year ? "{weekday} " : "{weekday}, ") + template;
  return template ? template + " {weekday}" : "{weekday}";
}

/** hourTemplate returns the template for a time with an hour. */
function hourTemplate(f, twelve) {
  const { minute, second, fractionalSecondDigits: fraction, dayPeriod, timeZoneName: zone } = f;
  let template = "{hour}";
  if (minute) template += ":{minute}";
  if (minute && (second || fraction)) template += ":{second}";
  if (minute && fraction) template += ".{fractionalSecond}";
  if (twelve) template += (dayPeriod && !zone ? " " : "\u202f") + "{dayPeriod}";
  if (zone) template += (!twelve && !minute ? "h" : "") + " {timeZoneName}";
  if (!minute && second) template += " (second: {second})";
  else if (!minute && fraction) template += " ├F14: {fractionalSecond}┤";
  return template;
}

/** timeTemplate returns the template for all time fields, or "" if there are none. */
function timeTemplate(f, twelve, british) {
  if (f.hour) return hourTemplate(f, twelve);
  const { minute, second, fractionalSecondDigits: fraction, dayPeriod, timeZoneName: zone } = f;
  const fields = [];
  if (minute) fields.push("{minute}");
  if (second || (minute && fraction)) fields.push("{second}");
  let template = fields.join(":");
  if (fraction) template += (template ? "." : "") + "{fractionalSecond}";
  const alone = !template;
  if (zone) template += (template ? " " : "") + "{timeZoneName}";
  if (!dayPeriod || (zone && !alone)) return template;
  return template ? `${template} ├${british ? "am/pm" : "AM/PM"}: {dayPeriod}┤` : "{dayPeriod}";
}

/** joint returns the separator between date and time. */
function joint(f, twelve) {
  if (f.month === "long") return " at ";
  const onlyWeekday = f.weekday && !f.era && !f.year && !f.month && !f.day;
  const plain = f.hour && !f.timeZoneName && !f.fractionalSecondDigits && (f.minute || (twelve && !f.second));
  return onlyWeekday && plain ? " " : ", ";
}

/** widths returns the fields' effective widths, which can differ from the requested ones. */
function widths(f, twelve, british) {
  const w = { ...f };
  if (f.minute && (f.hour || f.second || f.fractionalSecondDigits)) w.minute = w.second = "2-digit";
  else if (f.minute) w.minute = "numeric";
  if (!f.minute && f.second) w.second = "numeric";
  const asked = british && (f.minute === "2-digit" || f.second === "2-digit");
  if (f.hour && !twelve && !asked) w.hour = "2-digit";
  if (british && f.month && !isText(f.month)) britishWidths(f, w);
  return w;
}

function britishWidths(f, w) {
  if (!f.day) {
    if (f.year) w.month = "2-digit";
    return;
  }
  if ((f.month === "2-digit" || f.day === "2-digit") && !f.weekday && !f.era) return;
  if (f.weekday && f.era && f.year) return;
  w.day = w.month = "2-digit";
}

const dateStyles = {
  full: { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  long: { year: "numeric", month: "long", day: "numeric" },
  medium: { year: "numeric", month: "short", day: "numeric" },
  short: { year: "2-digit", month: "numeric", day: "numeric" },
};
const timeStyles = {
  full: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "long" },
  long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
  medium: { hour: "numeric", minute: "2-digit", second: "2-digit" },
  short: { hour: "numeric", minute: "2-digit" },
};

/** styleFields returns the fields for dateStyle and timeStyle. */
function styleFields(dateStyle, timeStyle, british) {
  const f = { ...dateStyles[dateStyle], ...timeStyles[timeStyle] };
  if (british && dateStyle === "short") f.year = "numeric";
  if (british && f.hour) f.hour = "2-digit";
  return f;
}

/** compile creates {template, widths, twelve} from fields. */
function compile(f, hourCycle, british) {
  const twelve = hourCycle === "h11" || hourCycle === "h12";
  const date = dateTemplate(f, british);
  const time = timeTemplate(f, twelve, british);
  const template = date + (date && time ? joint(f, twelve) : "") + time;
  return { date, time, tokens: tokensOf(template), widths: widths(f, twelve, british) };
}

/** tokensOf splits a template; every second token is a field. */
function tokensOf(template) {
  return template.split(/\{(\w+)\}/);
}

/** clock returns the fields of a time in a zone as numbers. */
function clock(ms, offset) {
  const d = new Date(Math.max(-8.64e15, Math.min(8.64e15, ms + offset * 1000)));
  const year = d.getUTCFullYear();
  return {
    era: year > 0 ? 1 : 0, year: year > 0 ? year : 1 - year, month: d.getUTCMonth(), day: d.getUTCDate(),
    weekday: d.getUTCDay(), hour: d.getUTCHours(), minute: d.getUTCMinutes(), second: d.getUTCSeconds(),
    millisecond: d.getUTCMilliseconds(),
  };
}

const pad = (number, width) => (width === "2-digit" ? String(number).padStart(2, "0") : String(number));

function named(names, index, width) {
  const name = names[index];
  if (width === "long") return name;
  return name.slice(0, width === "narrow" ? 1 : 3);
}

function hourIn(hour, cycle) {
  if (cycle === "h11") return hour % 12;
  if (cycle === "h12") return hour % 12 || 12;
  return cycle === "h24" ? hour || 24 : hour;
}

/** dayPeriodText returns AM or PM, or a part of the day if the option dayPeriod is set. */
function dayPeriodText(t, w, british) {
  if (!w.dayPeriod) return (british ? ["am", "pm"] : ["AM", "PM"])[t.hour < 12 ? 0 : 1];
  const noon = t.hour === 12 && !(w.minute && t.minute) && !(w.second && t.second);
  if (noon) return w.dayPeriod === "narrow" ? "n" : "noon";
  if (t.hour < 12) return "in the morning";
  if (t.hour < 18) return "in the afternoon";
  return t.hour < 21 ? "in the evening" : "at night";
}

/** readOptions reads a DateTimeFormat's options. */
function readOptions(locales, given, required, defaults) {
  const name = "DateTimeFormat";
  const { locale, keyword } = resolveLocale(locales);
  const o = { locale, fields: {} };
  for (const key of ["calendar", "numberingSystem"]) {
    const value = choice(name, given, key);
    if (value !== undefined && !/^[a-z\d]{3,8}(?:-[a-z\d]{3,8})*$/i.test(value)) throw new RangeError(`Invalid ${key} : ${value}`);
  }
  const hour12 = flag(given, "hour12");
  const cycles = ["h11", "h12", "h23", "h24"];
  const hourCycle = choice(name, given, "hourCycle", cycles, cycles.find((c) => c === keyword("hc")));
  o.hourCycle = cycleOf(hour12, hourCycle, locale === "en-GB");
  o.zone = given.timeZone === undefined ? zoneOf("UTC") : zoneOf(String(given.timeZone));
  for (const key of fieldOrder) {
    const value = key === "fractionalSecondDigits" ? integer(given, key, 1, 3) : choice(name, given, key, fieldValues[key]);
    if (value !== undefined) o.fields[key] = value;
  }
  choice(name, given, "formatMatcher", ["basic", "best fit"]);
  o.dateStyle = choice(name, given, "dateStyle", Object.keys(dateStyles));
  o.timeStyle = choice(name, given, "timeStyle", Object.keys(timeStyles));
  checkStyles(o, required);
  if (!o.dateStyle && !o.timeStyle) addDefaults(o.fields, required, defaults);
  return o;
}

/** cycleOf returns the hour cycle. As in Node, hour12: false means h24 for American English. */
function cycleOf(hour12, hourCycle, british) {
  if (hour12 === undefined) return hourCycle ?? (british ? "h23" : "h12");
  if (hour12) return british ? "h11" : "h12";
  return british ? "h23" : "h24";
}

function checkStyles(o, required) {
  if (!o.dateStyle && !o.timeStyle) return;
  const explicit = fieldOrder.find((key) => o.fields[key] !== undefined);
  if (explicit) {
    throw new TypeError(`Can't set option ${explicit} when ${o.dateStyle ? "dateStyle" : "timeStyle"} is used`);
  }
  if (required === "date" && o.timeStyle) throw new TypeError("Invalid option : timeStyle");
  if (required === "time" && o.dateStyle) throw new TypeError("Invalid option : dateStyle");
}

function addDefaults(fields, required, defaults) {
  const has = (keys) => keys.some((key) => fields[key] !== undefined);
  if (required !== "time" && has(dateFields)) return;
  if (required !== "date" && has(timeFields)) return;
  if (defaults !== "time") fields.year = fields.month = fields.day = "numeric";
  if (defaults !== "date") fields.hour = fields.minute = fields.second = "numeric";
}

function timeValue(date) {
  const ms = date === undefined ? Date.now() : Math.trunc(Number(date));
  if (!(Math.abs(ms) <= 8.64e15)) throw new RangeError("Invalid time value");
  return ms + 0;
}

/** Formatter implements DateTimeFormat; required and defaults are as in ECMA-402. */
export class Formatter {
  constructor(locales, options, required = "any", defaults = "date") {
    Object.assign(this, readOptions(locales, optionsObject(options), required, defaults));
    this.british = this.locale === "en-GB";
    const styled = this.dateStyle || this.timeStyle;
    this.shown = styled ? styleFields(this.dateStyle, this.timeStyle, this.british) : this.fields;
    this.compiled = compile(this.shown, this.hourCycle, this.british);
  }

  /** format formats a time. As in Node, it has a normal space before AM and PM. */
  format(date) {
    return joinParts(this.parts(timeValue(date))).replaceAll("\u202f", " ");
  }

  parts(ms, { tokens, widths: w } = this.compiled) {
    const t = clock(ms, this.zone.at(ms).offset);
    const parts = [];
    tokens.forEach((token, i) => {
      if (i % 2) parts.push({ type: token, value: this.field(token, t, w, ms) });
      else if (token) parts.push({ type: "literal", value: token });
    });
    return parts;
  }

  field(name, t, w, ms) {
    switch (name) {
      case "weekday": return named(weekdays, t.weekday, w.weekday);
      case "era": return eras[w.era][t.era];
      case "year": return w.year === "2-digit" ? pad(t.year % 100, w.year) : String(t.year);
      case "month": if (this.british && w.month === "short" && t.month === 8) return "Sept";
        return isText(w.month) ? named(months, t.month, w.month) : pad(t.month + 1, w.month);
      case "day": return pad(t.day, w.day);
      case "dayPeriod": return dayPeriodText(t, w, this.british);
      case "hour": return pad(hourIn(t.hour, this.hourCycle), w.hour);
      case "minute": return pad(t.minute, w.minute);
      case "second": return pad(t.second, w.second);
      case "fractionalSecond": return String(t.millisecond).padStart(3, "0").slice(0, w.fractionalSecondDigits);
      default: return zoneName(this.zone, ms, w.timeZoneName, this.british);
    }
  }

  resolved() {
    const r = { locale: this.locale, calendar: "gregory", numberingSystem: "latn", timeZone: this.zone.name };
    if (this.shown.hour) Object.assign(r, { hourCycle: this.hourCycle, hour12: /1[12]/.test(this.hourCycle) });
    const { widths: w, tokens } = this.compiled;
    if (!this.dateStyle && !this.timeStyle) {
      for (const key of fieldOrder) {
        const token = key === "fractionalSecondDigits" ? "fractionalSecond" : key;
        if (w[key] !== undefined && tokens.includes(token)) r[key] = w[key];
      }
    }
    if (this.dateStyle) r.dateStyle = this.dateStyle;
    if (this.timeStyle) r.timeStyle = this.timeStyle;
    return r;
  }

  /** range returns the parts of the range from a to b. */
  range(a, b) {
    const from = this.parts(a);
    const to = this.parts(b);
    const [t, u] = [clock(a, this.zone.at(a).offset), clock(b, this.zone.at(b).offset)];
    const sameDay = t.year === u.year && t.month === u.month && t.day === u.day && t.era === u.era;
    const { time } = this.compiled;
    const vague = !time && !this.shown.weekday && !this.shown.day;
    if ((sameDay || vague) && joinParts(from) === joinParts(to)) return markSource(from, "shared");
    if (time && sameDay) return this.timeRange(a, b, t, u);
    if (time || !isText(this.shown.month)) return this.dateRange(a, b, t, u);
    return this.textDateRange(a, b, t, u);
  }

  /** timeRange formats two times of one day: the date appears once, and so does a common AM or PM. */
  timeRange(a, b, t, u) {
    const f = this.shown;
    const { date, time } = this.compiled;
    const simple = f.hour && !f.second && !f.fractionalSecondDigits;
    const period = simple && dayPeriodText(t, f, false) === dayPeriodText(u, f, false);
    const end = period ? /^\{hour\}(?::\{minute\})?/ : simple ? /^.*?(?= \{timeZoneName\}|$)/ : /^.*$/;
    const core = end.exec(time)?.[0] ?? time;
    return this.spliced(a, b, date && date + ", ", core, time.slice(core.length).replace(/^h/, ""));
  }

  /** dateRange formats both dates in full, with the fields that distinguish them. */
  dateRange(a, b, t, u) {
    const f = { ...this.shown };
    const add = (...keys) => keys.forEach((key) => (f[key] ??= "numeric"));
    const { time } = this.compiled;
    if (time && !dateFields.some((key) => f[key])) add("year", "month", "day");
    else if (time && f.month && !f.day) add("year", "day");
    if (time && f.weekday) add("day");
    if (!time && f.month === "2-digit" && f.day === "2-digit") f.month = f.day = "numeric";
    if (f.day && t.year !== u.year) add("year", "month");
    else if (f.day && t.month !== u.month) add("month");
    const compiled = compile(f, this.hourCycle, this.british);
    return this.spliced(a, b, "", compiled.date + (time && joint(f, true)) + compiled.time, "", compiled);
  }

  /** textDateRange merges a common month and year: Jan 1 – 2, 1970. */
  textDateRange(a, b, t, u) {
    const f = { ...this.shown };
    if (t.year !== u.year || t.era !== u.era) {
      if (f.day) f.year ??= "numeric";
      const compiled = compile(f, this.hourCycle, this.british);
      return this.spliced(a, b, "", compiled.date, "", compiled);
    }
    const { date } = this.compiled;
    const tail = /,? (?:\{year\})?(?: \{era\})?$|$/.exec(f.year || f.era ? date : "");
    const end = tail && tail[0].includes("{") ? tail.index : date.length;
    const start = f.day && f.month && !f.weekday && t.month === u.month ? (this.british ? 0 : date.indexOf("{day}")) : 0;
    const stop = this.british && t.month === u.month && !f.weekday && f.day ? "{day}".length : end;
    return this.spliced(a, b, date.slice(0, start), date.slice(start, stop), date.slice(stop));
  }

  spliced(a, b, before, core, after, { widths: w } = this.compiled) {
    const hour = /1[12]/.test(this.hourCycle) && w.hour ? "numeric" : w.hour;
    const parts = (ms, template) => this.parts(ms, { tokens: tokensOf(template), widths: { ...w, hour } });
    return [
      ...markSource(parts(a, before), "shared"),
      ...markSource(parts(a, core), "startRange"),
      { type: "literal", value: "\u2009–\u2009", source: "shared" },
      ...markSource(parts(b, core), "endRange"),
      ...markSource(parts(b, after), "shared"),
    ];
  }
}

class DateTimeFormatClass {
  #formatter;
  #format;

  constructor(locales, options) {
    this.#formatter = new Formatter(locales, options);
  }

  get format() {
    return (this.#format ??= (date) => this.#formatter.format(date));
  }

  formatToParts(date) {
    return this.#formatter.parts(timeValue(date));
  }

  formatRange(start, end) {
    const parts = this.formatRangeToParts(start, end);
    const text = joinParts(parts);
    return parts.every((part) => part.source === "shared") ? text.replaceAll("\u202f", " ") : text;
  }

  formatRangeToParts(start, end) {
    if (start === undefined || end === undefined) throw new TypeError("startDate or endDate cannot be undefined");
    return this.#formatter.range(timeValue(start), timeValue(end));
  }

  resolvedOptions() {
    return this.#formatter.resolved();
  }
}

export const DateTimeFormat = callable(
  Object.defineProperty(DateTimeFormatClass, "name", { value: "DateTimeFormat", configurable: true }),
);
