import { stemWord } from "./tokenize.ts";

/** Synonyms, with a semicolon after each meaning. Add only sure ones: a wrong group costs more than a missing one. */
const synonymGroups = `
delete remove erase destroy drop discard clear; create add new make insert register;
generate create produce build compose; get fetch retrieve show read obtain view; list enumerate browse show;
search find lookup query locate discover; update edit modify change alter adjust; set change assign;
send deliver dispatch forward post; share publish post; buy purchase order shop; sell trade;
start launch begin run activate enable; run execute invoke perform; stop end halt terminate cancel abort;
on enable activate; off disable deactivate; turn switch toggle; close shut; cancel revoke;
check verify validate inspect test; compute calculate evaluate; count number total;
convert transform change translate; compare contrast difference; summarize summary digest; analyze analysis examine;
monitor track watch observe; schedule plan book calendar; book reserve reservation booking; download fetch;
upload import attach; save store keep; copy duplicate clone; rename move; join merge combine concatenate;
split divide separate; sort order rank; reply respond answer; write compose draft; explain describe;
suggest recommend recommendation suggestion; detect recognize identify identification;
classify categorize classification; predict forecast estimate; translate translation language; increase raise add;
decrease lower reduce subtract; picture image photo photograph; film movie; song music track tune; clip video;
cost price pricing fee; cheap discount deal offer coupon; salary wage pay compensation;
job career employment position vacancy; firm company business organization; staff employee worker; customer client;
person people user member; kid child; trip travel journey tour vacation; flight airline plane;
hotel accommodation lodging stay; car vehicle auto automobile; house home property apartment; doctor physician;
illness disease sickness condition; drug medicine medication; meal recipe dish food; law legal; attorney lawyer;
school education; teach tutor teaching; course class lesson; study learn learning; test exam quiz; article news story;
website site webpage page; link url; mail email; message text sms chat; phone telephone mobile call; repo repository;
doc document file; folder directory; database db; kubernetes k8s; ticket issue; bug error defect;
error failure exception; login authenticate auth; password credential secret; token key;
setting settings config configuration preference; stats statistics metric; chart graph plot diagram;
table sheet spreadsheet; event meeting appointment; meeting conference; reminder alarm alert;
notify notification alert; location place address where; map direction route navigation; distance far;
temperature heat warm cold; lamp light bulb; tv television; blind curtain shade cover; volume loud;
stock share equity; crypto cryptocurrency bitcoin; loan mortgage credit; tax taxes; bill invoice; payment pay;
money cash fund; exchange convert; present gift; game play; match fixture; sport sports; team club; joke humor funny;
quote quotation; word vocabulary; definition meaning; synonym thesaurus; poem poetry; story tale; book novel;
author writer; paper publication research; talk speech conversation; voice speech audio; sound audio; text transcript;
transcribe transcription; area surface; size dimension; fast quick speed; finish complete done`;

/** A broader term, then things of that kind. A query for one of them may match an action for the broader term. */
const kindGroups = `
currency: dollar euro yen pound rupee yuan franc peso usd eur gbp jpy; exchange: currency;
weather: rain snow wind sunny cloudy humidity umbrella storm temperature forecast climate;
travel: hotel flight vacation trip itinerary airport tourist destination;
food: restaurant recipe cook cooking dinner lunch breakfast meal cuisine ingredient;
recipe: cook cooking bake ingredient; restaurant: dinner lunch dine eat; drink: wine beer cocktail coffee;
shopping: buy purchase shop store product deal discount; product: laptop phone smartphone shoes headphones gadget;
finance: stock loan mortgage investment invest bank budget portfolio; investment: stock bond portfolio dividend etf;
cryptocurrency: bitcoin ethereum token coin wallet blockchain;
music: song album artist band playlist guitar piano concert lyrics; video: youtube movie clip film stream;
movie: actor cinema film series show; image: picture photo drawing painting logo portrait;
art: painting museum artist drawing;
education: course school university student teacher tutor exam homework class degree;
course: class lesson tutor training; health: doctor disease symptom medicine hospital fitness diet patient;
fitness: workout exercise gym yoga running; medical: doctor patient disease diagnosis symptom hospital;
legal: contract lawyer law court attorney; job: career resume hiring recruiter interview position salary employment;
property: apartment house rent rental mortgage estate; vehicle: car truck bike motorcycle; animal: dog cat pet bird;
pet: dog cat puppy kitten; plant: flower garden tree gardening; beauty: lipstick makeup cosmetic skincare;
clothing: dress shirt shoes outfit fashion; game: chess puzzle minecraft player;
sports: football soccer basketball baseball tennis cricket nba nfl hockey golf league;
news: headline article journalist politics; code: program programming python javascript java script function software;
programming: python javascript java code developer;
math: equation integral derivative algebra calculate sum multiply calculus;
calculate: sum add multiply divide percentage average; email: inbox gmail mail newsletter;
message: sms slack whatsapp chat; calendar: appointment meeting event schedule; document: pdf word report contract;
pdf: document; translate: spanish french german chinese japanese english language;
language: spanish french german chinese japanese english; map: direction route location navigate;
location: city country address street town nearby; speech: voice audio transcribe pronounce;
astronomy: planet star galaxy space; tarot: horoscope fortune zodiac;
company: startup business competitor corporation; marketing: seo campaign advertisement brand audience;
website: seo domain web page; research: paper study academic scholar journal; light: lamp bulb brightness;
cover: blind curtain garage shutter; climate: thermostat heating cooling; device: switch fan lamp tv heater;
lock: door; charity: donate donation nonprofit; gift: birthday anniversary; ticket: concert event;
database: sql table query; storage: bucket blob file; repository: github git gitlab; container: docker kubernetes;
vulnerability: security exploit cve`;

let relatives: ReadonlyMap<string, ReadonlySet<string>> | undefined;

export function findRelatedStems(stem: string): Iterable<string> {
  // Built by the first search: other commands do not need it.
  relatives ??= parseSynonyms();
  return relatives.get(stem) ?? [];
}

function parseSynonyms(): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  const relate = (word: string, other: string): void => {
    const [from, to] = [stemWord(word), stemWord(other)];
    const known = found.get(from) ?? new Set<string>();
    if (from !== to) found.set(from, known.add(to));
  };
  for (const group of synonymGroups.trim().split(/;\s+/)) {
    const words = group.split(" ");
    for (const word of words) for (const other of words) relate(word, other);
  }
  for (const group of kindGroups.trim().split(/;\s+/)) {
    const [kind = "", things = ""] = group.split(": ");
    for (const thing of things.split(" ")) relate(thing, kind);
  }
  return found;
}
