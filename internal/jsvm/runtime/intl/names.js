// English names for Intl. Each table is a string that is parsed on first use.

import { lazy, table } from "./common.js";

const digits = table(
  "BHD=3;JOD=3;KWD=3;LYD=3;OMR=3;TND=3;" +
    "AFN ALL BIF CLP COP DJF GNF HUF IDR IQD IRR ISK JPY KMF KPW KRW LAK LBP MGA MMK PKR PYG RWF SLL SOS SYP UGX VND VUV XAF XOF XPF YER"
      .replaceAll(" ", "=0;") + "=0",
);

const symbols = table(
  "AUD=A$;BRL=R$;CAD=CA$;CNY=CN¥;EUR=€;GBP=£;HKD=HK$;ILS=₪;INR=₹;JPY=¥;KRW=₩;MXN=MX$;NZD=NZ$;PHP=₱;TWD=NT$;USD=$;VND=₫;" +
    "XAF=FCFA;XCD=EC$;XCG=Cg.;XOF=F\u202fCFA;XPF=CFPF",
);

const narrowSymbols = table(
  "AFN=؋;AMD=֏;AOA=Kz;ARS=$;AUD=$;AZN=₼;BAM=KM;BBD=$;BDT=৳;BMD=$;BND=$;BOB=Bs;BSD=$;BWP=P;BZD=$;CAD=$;CLP=$;CNY=¥;COP=$;CRC=₡;" +
    "CUC=$;CUP=$;CZK=Kč;DKK=kr;DOP=$;EGP=E£;FJD=$;FKP=£;GEL=₾;GHS=GH₵;GIP=£;GNF=FG;GTQ=Q;GYD=$;HKD=$;HNL=L;HRK=kn;HUF=Ft;IDR=Rp;" +
    "ISK=kr;JMD=$;KGS=⃀;KHR=៛;KMF=CF;KPW=₩;KYD=$;KZT=₸;LAK=₭;LBP=L£;LKR=Rs;LRD=$;MGA=Ar;MMK=K;MNT=₮;MUR=Rs;MXN=$;MYR=RM;NAD=$;" +
    "NGN=₦;NIO=C$;NOK=kr;NPR=Rs;NZD=$;PKR=Rs;PLN=zł;PYG=₲;RON=lei;RUB=₽;RWF=RF;SBD=$;SEK=kr;SGD=$;SHP=£;SRD=$;SSP=£;STN=Db;SYP=£;" +
    "THB=฿;TOP=T$;TRY=₺;TTD=$;TWD=$;UAH=₴;UYU=$;XCD=$;ZAR=R;ZMW=ZK",
);

// code=title|one|other; other defaults to one with an s appended.
const currencies = table(
  "USD=US Dollar|US dollar;EUR=Euro|euro;GBP=British Pound|British pound;JPY=Japanese Yen|Japanese yen|Japanese yen;" +
    "CNY=Chinese Yuan|Chinese yuan|Chinese yuan;INR=Indian Rupee|Indian rupee;KRW=South Korean Won|South Korean won|South Korean won;" +
    "AUD=Australian Dollar|Australian dollar;CAD=Canadian Dollar|Canadian dollar;NZD=New Zealand Dollar|New Zealand dollar;" +
    "HKD=Hong Kong Dollar|Hong Kong dollar;SGD=Singapore Dollar|Singapore dollar;TWD=New Taiwan Dollar|New Taiwan dollar;" +
    "MXN=Mexican Peso|Mexican peso;BRL=Brazilian Real|Brazilian real;CHF=Swiss Franc|Swiss franc;" +
    "SEK=Swedish Krona|Swedish krona|Swedish kronor;NOK=Norwegian Krone|Norwegian krone|Norwegian kroner;" +
    "DKK=Danish Krone|Danish krone|Danish kroner;PLN=Polish Zloty|Polish zloty;CZK=Czech Koruna|Czech koruna;" +
    "HUF=Hungarian Forint|Hungarian forint;RON=Romanian Leu|Romanian leu|Romanian lei;BGN=Bulgarian Lev|Bulgarian lev|Bulgarian leva;" +
    "TRY=Turkish Lira|Turkish lira|Turkish Lira;RUB=Russian Ruble|Russian ruble;UAH=Ukrainian Hryvnia|Ukrainian hryvnia;" +
    "ILS=Israeli New Shekel|Israeli new shekel;ZAR=South African Rand|South African rand|South African rand;" +
    "AED=United Arab Emirates Dirham|UAE dirham;SAR=Saudi Riyal|Saudi riyal;THB=Thai Baht|Thai baht|Thai baht;" +
    "IDR=Indonesian Rupiah|Indonesian rupiah;MYR=Malaysian Ringgit|Malaysian ringgit;PHP=Philippine Peso|Philippine peso;" +
    "VND=Vietnamese Dong|Vietnamese dong|Vietnamese dong;EGP=Egyptian Pound|Egyptian pound;NGN=Nigerian Naira|Nigerian naira;" +
    "KES=Kenyan Shilling|Kenyan shilling;ARS=Argentine Peso|Argentine peso;CLP=Chilean Peso|Chilean peso;COP=Colombian Peso|Colombian peso;" +
    "PEN=Peruvian Sol|Peruvian sol|Peruvian soles;ISK=Icelandic Króna|Icelandic króna|Icelandic krónur;PKR=Pakistani Rupee|Pakistani rupee",
);

export function currencyDigits(code) {
  return Number(digits().get(code) ?? 2);
}

export function currencySymbol(code, narrow) {
  return (narrow && narrowSymbols().get(code)) || symbols().get(code) || code;
}

/** currencyName returns the name that follows an amount. */
export function currencyName(code, one) {
  const [, singular, plural] = currencies().get(code)?.split("|") ?? [code, code, code];
  return one ? singular : (plural ?? singular + "s");
}

export function currencyTitle(code) {
  return currencies().get(code)?.split("|")[0];
}

/** currencyCodes returns the supported codes. */
export function currencyCodes() {
  return [...new Set([...digits().keys(), ...symbols().keys(), ...narrowSymbols().keys(), ...currencies().keys()])].sort();
}

// unit=short|narrow|long, each with an irregular plural after a slash.
const unitTable = table(
  "acre=ac;bit=bit;byte=byte|B;celsius=°C|°C|degree Celsius/degrees Celsius;centimeter=cm;day=day/days|d;degree=deg|°;" +
    "fahrenheit=°F|°|degree Fahrenheit/degrees Fahrenheit;fluid-ounce=fl oz||fluid ounce;foot=ft|′|foot/feet;gallon=gal;gigabit=Gb;" +
    "gigabyte=GB;gram=g;hectare=ha;hour=hr|h;inch=in|″|inch/inches;kilobit=kb;kilobyte=kB;kilogram=kg;kilometer=km;liter=L;megabit=Mb;" +
    "megabyte=MB;meter=m;microsecond=μs;mile=mi;mile-scandinavian=smi||mile-scandinavian/miles-scandinavian;milliliter=mL;millimeter=mm;" +
    "millisecond=ms;minute=min|m;month=mth/mths|m;nanosecond=ns;ounce=oz;percent=%|%|percent/percent;petabyte=PB;pound=lb|#;second=sec|s;" +
    "stone=st;terabit=Tb;terabyte=TB;week=wk/wks|w;yard=yd;year=yr/yrs|y;mile-per-hour=mph;mile-per-gallon=mpg",
);

const perUnits = lazy(() => ({ second: "s", minute: "min", hour: "h", day: "d", week: "w", month: "m", year: "y", foot: "ft", inch: "in", pound: "lb" }));

/** simpleUnit returns the name of a unit that is not a quotient. */
function simpleUnit(unit, display, one) {
  const [short, narrow, long] = unitTable().get(unit).split("|");
  if (display === "long") {
    const [singular, plural] = (long || unit).split("/");
    return one ? singular : (plural ?? singular + "s");
  }
  const [singular, plural] = ((display === "narrow" && narrow) || short).split("/");
  return one ? singular : (plural ?? singular);
}

function unitName(unit, display, one) {
  const [numerator, denominator] = unit.split("-per-");
  const space = display === "long" || (display === "short" && !/^[°%]/.test(simpleUnit(numerator, display, one)));
  if (!denominator || (display !== "long" && unitTable().has(unit))) {
    return { space, text: simpleUnit(unit, display, one) };
  }
  const name = simpleUnit(numerator, display, one);
  if (display !== "long" && numerator === "percent") return { space, text: name };
  if (display === "long") return { space, text: `${name} per ${simpleUnit(denominator, display, true)}` };
  if (display === "short" && denominator === "gallon") return { space, text: `${name}/gal US` };
  return { space, text: `${name}/${perUnits()[denominator] ?? simpleUnit(denominator, display, true)}` };
}

export const units = {
  known: (unit) => unit.split("-per-").every((u) => unitTable().has(u)) && unit.split("-per-").length <= 2,
  name: unitName,
  all: () => [...unitTable().keys()].filter((u) => !u.includes("-per-")),
};

export const regions = table(
  "AE=United Arab Emirates;AR=Argentina;AT=Austria;AU=Australia;BE=Belgium;BG=Bulgaria;BR=Brazil;CA=Canada;CH=Switzerland;CL=Chile;" +
    "CN=China;CO=Colombia;CZ=Czechia;DE=Germany;DK=Denmark;EE=Estonia;EG=Egypt;ES=Spain;EU=European Union;FI=Finland;FR=France;" +
    "GB=United Kingdom;GR=Greece;HK=Hong Kong SAR China;HR=Croatia;HU=Hungary;ID=Indonesia;IE=Ireland;IL=Israel;IN=India;IS=Iceland;" +
    "IT=Italy;JP=Japan;KE=Kenya;KR=South Korea;LT=Lithuania;LU=Luxembourg;LV=Latvia;MA=Morocco;MX=Mexico;MY=Malaysia;NG=Nigeria;" +
    "NL=Netherlands;NO=Norway;NZ=New Zealand;PE=Peru;PH=Philippines;PK=Pakistan;PL=Poland;PT=Portugal;RO=Romania;RS=Serbia;RU=Russia;" +
    "SA=Saudi Arabia;SE=Sweden;SG=Singapore;SI=Slovenia;SK=Slovakia;TH=Thailand;TR=Türkiye;TW=Taiwan;UA=Ukraine;US=United States;" +
    "VN=Vietnam;ZA=South Africa;ZZ=Unknown Region;001=world;150=Europe;419=Latin America",
);

export const languages = table(
  "ar=Arabic;bg=Bulgarian;bn=Bangla;ca=Catalan;cs=Czech;da=Danish;de=German;el=Greek;en=English;es=Spanish;et=Estonian;fa=Persian;" +
    "fi=Finnish;fr=French;he=Hebrew;hi=Hindi;hr=Croatian;hu=Hungarian;id=Indonesian;is=Icelandic;it=Italian;ja=Japanese;ko=Korean;" +
    "lt=Lithuanian;lv=Latvian;ms=Malay;nb=Norwegian Bokmål;nl=Dutch;no=Norwegian;pl=Polish;pt=Portuguese;ro=Romanian;ru=Russian;" +
    "sk=Slovak;sl=Slovenian;sr=Serbian;sv=Swedish;sw=Swahili;ta=Tamil;te=Telugu;th=Thai;tr=Turkish;uk=Ukrainian;ur=Urdu;vi=Vietnamese;" +
    "zh=Chinese;en-US=American English;en-GB=British English;en-AU=Australian English;en-CA=Canadian English;es-ES=European Spanish;" +
    "es-MX=Mexican Spanish;es-419=Latin American Spanish;fr-CA=Canadian French;fr-CH=Swiss French;de-AT=Austrian German;" +
    "de-CH=Swiss High German;pt-BR=Brazilian Portuguese;pt-PT=European Portuguese;zh-Hans=Simplified Chinese;zh-Hant=Traditional Chinese",
);

export const scripts = table(
  "Arab=Arabic;Cyrl=Cyrillic;Deva=Devanagari;Grek=Greek;Hans=Simplified Han;Hant=Traditional Han;Hebr=Hebrew;Jpan=Japanese;Kore=Korean;Latn=Latin;Thai=Thai",
);
