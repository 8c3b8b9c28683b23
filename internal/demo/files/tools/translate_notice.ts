import type { Meta } from "toolyard";
import { z } from "zod";

export const title = "Translate a notice";
export const description = "Writes a standard notice to a ship crew in their language.";
export const category = "language";
export const modes = ["read", "write"];
export const _meta: Meta = { pricing: { executeUsd: "0.004" }, latencyClass: "instant" };

export const inputSchema = z.object({
  notice: z.enum(["berth_ready", "delay", "pilot_boarding"]).describe("Type of notice"),
  language: z.enum(["en", "nl", "de", "es", "fr"]).default("en").describe("Language of the crew"),
  ship: z.string().min(2).max(60).describe("Name of the ship"),
  particulars: z.object({
    berth: z.string().max(20).optional(),
    hours: z.number().int().min(1).max(96).optional(),
    place: z.string().max(60).optional(),
  }).default({}).describe("Details of the notice"),
});

const notices: Record<string, Record<string, string>> = {
  berth_ready: {
    en: "{ship}: berth {berth} is ready for you.",
    nl: "{ship}: ligplaats {berth} staat voor u klaar.",
    de: "{ship}: Liegeplatz {berth} ist für Sie bereit.",
    es: "{ship}: el atraque {berth} está listo.",
    fr: "{ship} : le poste {berth} est prêt.",
  },
  delay: {
    en: "{ship}: expect a delay of {hours} hours.",
    nl: "{ship}: houd rekening met {hours} uur vertraging.",
    de: "{ship}: rechnen Sie mit {hours} Stunden Verspätung.",
    es: "{ship}: habrá un retraso de {hours} horas.",
    fr: "{ship} : prévoyez {hours} heures de retard.",
  },
  pilot_boarding: {
    en: "{ship}: the pilot boards at {place}.",
    nl: "{ship}: de loods komt aan boord bij {place}.",
    de: "{ship}: der Lotse kommt bei {place} an Bord.",
    es: "{ship}: el práctico embarca en {place}.",
    fr: "{ship} : le pilote embarque à {place}.",
  },
};

export default async ({ notice, language, ship, particulars }: z.infer<typeof inputSchema>) => {
  const values: Record<string, string | number | undefined> = { ship, ...particulars };
  const missing: string[] = [];
  const text = (notices[notice]?.[language] ?? "").replace(/\{(\w+)\}/g, (_, name: string) => {
    if (values[name] === undefined) missing.push(name);
    return String(values[name] ?? "");
  });
  if (missing.length > 0) return { isError: true, error: `The notice ${notice} needs particulars: ${missing.join(", ")}.` };
  return { language, text };
};
