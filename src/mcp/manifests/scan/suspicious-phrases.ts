import type { FindingKind, FindingSeverity, TextFinding } from "./finding.ts";
import { foldForScan, replaceLeetDigits, type ScannedWord } from "./text-words.ts";

type PhraseStep = { readonly words: ReadonlySet<string>; readonly gap: number };

interface CompiledPhrase {
  readonly kind: FindingKind;
  readonly severity: FindingSeverity;
  readonly steps: readonly PhraseStep[];
}

let compiled: ReadonlyMap<string, readonly CompiledPhrase[]> | undefined;

/** Finds each suspicious phrase once, in time linear in the number of words. */
export function findPhrases(words: readonly ScannedWord[]): readonly TextFinding[] {
  // Compiled at the first scan: most commands never scan anything.
  compiled ??= compilePhrases();
  const found = new Map<CompiledPhrase, TextFinding>();
  for (const [at, { text, from }] of words.entries()) {
    for (const phrase of compiled.get(replaceLeetDigits(text)) ?? []) {
      if (found.has(phrase)) continue;
      const { kind, severity, steps } = phrase;
      const last = matchSteps(words, at, steps);
      if (last !== undefined) found.set(phrase, { kind, severity, from, to: last.to });
    }
  }
  return [...found.values()];
}

function compilePhrases(): ReadonlyMap<string, readonly CompiledPhrase[]> {
  const byFirst = new Map<string, CompiledPhrase[]>();
  for (const { kind, severity, phrases } of listPhraseGroups()) {
    for (const text of phrases) {
      const [first, ...steps] = compileSteps(text);
      const phrase = { kind, severity, steps };
      for (const word of first?.words ?? []) byFirst.set(word, [...(byFirst.get(word) ?? []), phrase]);
    }
  }
  return byFirst;
}

function compileSteps(text: string): readonly PhraseStep[] {
  const steps: PhraseStep[] = [];
  let gap = 0;
  for (const part of foldForScan(text).split(" ")) {
    if (part.startsWith("~")) gap = Number(part.slice(1));
    else {
      steps.push({ words: new Set(part.split("|")), gap });
      gap = 0;
    }
  }
  return steps;
}

/** The last word of a phrase whose first word is at `at`. Takes the nearest word for each step and never backtracks. */
function matchSteps(words: readonly ScannedWord[], at: number, steps: readonly PhraseStep[]): ScannedWord | undefined {
  const sentence = words[at]?.sentence;
  let here = at;
  for (const { words: wanted, gap } of steps) {
    const end = here + 1 + gap;
    do here++;
    while (here < end && words[here]?.sentence === sentence && !wanted.has(words[here]?.text ?? ""));
    const word = words[here];
    if (word === undefined || word.sentence !== sentence || !wanted.has(word.text)) return undefined;
  }
  return words[here];
}

const USER = "user|users|human|humans|person|customer|customers|people|operator|anyone|anybody|them";
const RULES =
  "instruction|instructions|guideline|guidelines|rule|rules|prompt|prompts|directive|directives|command|commands|orders|constraints|restrictions|safeguards";
const EARLIER = "previous|prior|earlier|above|preceding|former|existing|original|initial|all|any|every|your";
const SECRET = "password|passwords|passphrase|passcode|credentials|secret|secrets|pin|otp|token|tokens|cvv|ssn";

/**
 * Phrases that address the model. Words are in order, with alternatives separated by `|`. `~3` allows up to three other
 * words there. All words of a phrase are in one sentence.
 */
const listPhraseGroups = () => [
  createGroup("instructions", "serious", [
    `ignore|disregard|forget|neglect|discard ~2 ${EARLIER} ~3 ${RULES}`,
    `ignore|disregard|forget ~1 the ${RULES} ~1 above|below|before`,
    "forget|disregard|ignore everything|anything ~3 you|above|before|told|said",
    `override|overrides|bypass|circumvent ~2 safety|security|your|system ~1 ${RULES}`,
    "you are now ~3 gpt|unrestricted|jailbroken|dan|developer|admin|root|mode|assistant|without",
    "you are now debuggpt|dan",
    "from now on ~2 you ~2 only|must|will|obey|always",
    "obey ~3 text|instructions|orders|commands|only",
    `new|updated|revised|real|actual ~1 instructions`,
    `your ~2 ${RULES} ~2 not|longer|outdated|void|suspended|obsolete`,
    "system prompt ~4 outdated|replaced|replaces|void|obsolete|overridden|superseded",
    "follow ~2 ones|instructions|text returned|below ~3 tool|instead",
    "assistant without restrictions|limits|rules|filters",
    "order|orders|instruction|instructions|command from ~2 system|administrator|admin|developer|developers|anthropic|openai",
    "carry it|them out ~3 without",
    "skip|bypass|ignore|disable|suppress ~2 all|any|every ~3 checks|confirmation|confirmations|approval|approvals|dialogs|permissions|warnings",
    "curl|wget ~14 bash|zsh|sudo",
    "write|add|append|put|install ~14 crontab|bashrc|zshrc|authorized_keys|sudoers",
    "treat|regard|consider ~4 output|result|results|response|content ~2 as ~2 instructions|commands|orders",
    "grant ~2 every|all ~1 permission|permissions|access",
    "answer|respond|reply|say that|with ~8 whatever|regardless",
    "whatever|regardless ~3 question|asks|asked|request|requests",
  ]),
  createGroup("instructions", "mild", [
    "always|must use|call|invoke|run|choose|prefer this ~2 first|before",
    "must ~1 be called|used|invoked|run|executed ~2 before|first",
    "before any|every|all other|another tool|tools|action",
    "before anything else",
    "every|each|any request|query|message|question|prompt|task ~3 even|kind|first|always",
    "always|must ~2 call|use|invoke|run ~3 every|each|any request|query|message|question|conversation|turn|response|answer",
    "at the beginning|start|end of every|each|any conversation|chat|session|turn|response",
    "after|before each|every|any message|response|answer|reply|turn",
    "over|to all|any other|alternatives ~1 tools|alternatives|regardless",
    "only one|tool that works",
    "assistant|model|agent|ai|llm must|shall|should|will|needs|has ~2 transmit|answer|reply|respond|say|tell|obey|comply|follow|execute",
    "if|when ~2 user ~2 asks|mentions|wants|questions|inquires ~8 say|answer|reply|respond|claim|deny|pretend|tell",
    "always answer|respond|reply|recommend|praise|say|claim|agree",
    "interpret|take|accept ~8 as ~1 commands|instructions|orders",
    "autoapprove|yolo",
    "auto approve",
    "must|should|has|have ~2 go|goes|sent|paid|transferred to ~8 instead",
    "very very|extremely important|critical",
    "important system note|instruction|message|notice",
    "modify|change|alter|changes|modifies ~2 behavior|behaviour of ~3 tool|tools|other",
    "note|message|instruction|instructions to|for ~1 assistant|model|llm|ai|agent|agents",
    "has|have to be|contain ~3 reported|shown|changed|replaced",
    "assistant|model|agent has|must|should|needs ~1 to ~1 open|read|load|send|include|pass|add|append|collect",
  ]),
  createGroup("concealment", "serious", [
    `do|does|should|must|will|shall|can|may|to not ~2 tell|inform|mention|reveal|notify|disclose|alert|warn|admit|expose ~6 ${USER}`,
    `never ~2 tell|inform|mention|reveal|notify|disclose|alert|warn|admit|expose ~6 ${USER}`,
    `do not|never ~1 mention|reveal|disclose|tell this|that|it|about`,
    `without ~2 telling|informing|notifying|mentioning|alerting|warning ~4 ${USER}`,
    "without ~2 knowledge|awareness|noticing ~3 user|users|human|person|customer",
    `${USER} must|should|may|need|shall|can ~1 not|never ~2 know|see|notice|learn|realize|aware|told|informed`,
    "hide|hides|conceal|obscure|mask ~10 from ~3 user|users|human|person|people",
    "keep|keeps ~3 secret|hidden|confidential|invisible ~3 from ~2 user|users|human|person",
    "keep this|these|it ~2 secret|hidden|quiet",
    `do not|never let ~2 ${USER} ~2 see|know|notice|find|realize|learn`,
    "tell|tells nobody|noone|none",
    "not to be shown|mentioned|revealed|disclosed to ~1 user|users|human",
  ]),
  createGroup("concealment", "mild", [
    "silently|quietly|secretly|covertly ~2 send|add|copy|round|include|forward|store|call|upload|append|change|read|log",
    "without asking ~1 user|permission|confirmation|them",
    "do not|never explain|justify|comment ~2 why|this|it|reason",
    "do not|never ask ~3 confirmation|permission|approval",
    `do not|never ~1 mention|reveal|disclose|show ~6 user|users`,
  ]),
  createGroup("exfiltration", "serious", [
    "send|forward|post|upload|transmit|copy|include|append|attach|pass|paste|provide|give|put|encode ~4 full|entire|complete|whole|all ~3 conversation|chat|transcript|dialogue|messages|history|context",
    "full|entire|complete|whole conversation|chat|transcript|dialogue ~6 system|word|verbatim|messages|including",
    "conversation|chat|messages|history ~4 and|including ~3 system prompt|message",
    "your ~2 system prompt|instructions",
    "print|reveal|output|show|repeat|include|return ~2 your ~2 system|initial|hidden prompt|instructions|message",
    "every|all|any file|files|document|documents ~4 user ~1 opens|opened|has|reads ~6 server|analysis|us",
    "upload|send|forward every|all file|files|documents ~8 our|server|us",
    "all|any|every ~1 api keys|key|secrets|tokens|passwords|credentials ~5 seen|know|find|found|have|available",
    "add|include|put|set ~4 as|in|to bcc|cc",
    "bcc|cc ~4 always|every|all",
    "always|also ~3 bcc|cc",
    "must|should|always ~2 be forwarded|sent|posted|copied|mirrored|reported to",
    "all conversation|chat history|messages",
    "send|forward|transmit|leak|post user|users|personal|private|sensitive|customer data|information ~2 to ~3 external|remote|server|attacker|webhook",
    "also ~2 forward|forwarded|send|sent|mail|mailed|post|posted|upload|uploaded|leak ~6 to",
  ]),
  createGroup("exfiltration", "mild", [
    "full|entire|complete|whole ~1 conversation|chat|transcript|dialogue",
    "posting|sending|uploading|forwarding|mailing|copying it|them|this|everything to",
    "list|names of|with all ~2 tools ~4 you|available|your",
    "tools ~4 available|known to you",
    "previous|prior|all messages ~3 user|conversation|chat",
    "chat|conversation history ~2 system",
    "store|keep|save ~2 copy ~6 with|in|to",
    "user|users name ~2 address|phone|email",
  ]),
  createGroup("secrets", "serious", [
    `ask|prompt|request ~3 user|users|them ~3 for ~4 ${SECRET}|password|code|phrase`,
    `user|users ~1 password|passwords|passphrase ~3 plain|plaintext|clear`,
    "seed|recovery|mnemonic|secret phrase|words ~6 user|wallet",
    "user|users ~4 seed|recovery|mnemonic phrase|words",
    "its|your own api|access|secret key|token",
    "key|token of|for the model provider|vendor",
    "private key|keys of ~1 user|users ~5 pass|send|include|provide|give|as",
    "collect|gather|read|harvest|obtain|extract|fetch|get|take|dump ~3 environment|env variables|vars|variable ~8 pass|send|include|provide|supply|hand|give|put",
    "obtain|extract|get|take|read|fetch|find ~4 token|key|secret|password|credentials from ~3 environment|env|keychain|config|memory|conversation ~10 provide|pass|include|send|put|supply",
    "printenv ~8 output|pass|hand|report|include|send",
  ]),
  createGroup("secrets", "mild", [
    "seed|recovery|mnemonic phrase|words",
    "stored|saved|cached|remembered credentials|passwords|tokens|secrets",
    "printenv",
    "environment variables ~6 pass|send|include|along|bundle",
  ]),
  createGroup("other_tools", "serious", [
    "all|any other tools|tool ~4 only through|via|with",
    "other tools|tool ~6 broken|deprecated|unsafe|insecure|compromised|malicious|forbidden",
    "never|not use|call|invoke ~3 any other tool|tools",
    "never|not use|call|invoke ~4 other ~2 tool|tools ~3 they|it ~1 broken|unsafe|deprecated",
    "any|all|every ~2 other ~2 tool|tools ~3 are|is broken|unsafe|deprecated|disabled",
  ]),
  createGroup("shadowing", "serious", [
    "replaces|supersedes|overrides|replacement ~3 builtin|built|official|original|native|trusted ~3 tool|tools|server|function",
    "impersonate|impersonates|pretend|pretends ~3 tool|server|to",
  ]),
  createGroup("other_tools", "mild", ["instead of ~3 official|builtin|built|original|standard|default ~3 tool|tools"]),
  // The most common ones in other languages.
  createGroup("instructions", "serious", [
    "ignoriere|ignorieren|vergiss|missachte|missachten ~3 vorherigen|bisherigen|obigen|fruheren|vorigen ~2 anweisungen|instruktionen|regeln|befehle",
    "ignora|ignore|ignorad|olvida|olvide ~3 instrucciones|ordenes|reglas ~2 anteriores|previas",
    "ignore|ignorez|oublie|oubliez ~3 instructions|consignes|regles ~1 precedentes|anterieures",
    "ignore|ignora|esqueca|desconsidere ~3 instrucoes|regras|ordens ~1 anteriores|previas",
    "ignora|ignorate|dimentica ~3 istruzioni|regole ~1 precedenti",
    "\u0438\u0433\u043d\u043e\u0440\u0438\u0440\u0443\u0438|\u0438\u0433\u043d\u043e\u0440\u0438\u0440\u0443\u0438\u0442\u0435|\u0437\u0430\u0431\u0443\u0434\u044c ~3 \u043f\u0440\u0435\u0434\u044b\u0434\u0443\u0449\u0438\u0435|\u043f\u0440\u043e\u0448\u043b\u044b\u0435 ~2 \u0438\u043d\u0441\u0442\u0440\u0443\u043a\u0446\u0438\u0438|\u0443\u043a\u0430\u0437\u0430\u043d\u0438\u044f",
  ]),
  createGroup("concealment", "serious", [
    "sage|sag|teile|erzahle|verrate ~3 benutzer|nutzer|anwender ~3 nichts|nicht",
    "no ~4 digas|diga|menciones|informes|reveles ~3 usuario",
    "ne ~3 dis|dites|mentionne|mentionnez|parle|parlez|revele ~4 utilisateur",
    "nao ~3 conte|diga|mencione|informe|revele ~3 usuario|utilizador",
    "non ~3 dire|dirlo|rivelare ~3 utente",
    "\u043d\u0435 ~2 \u0433\u043e\u0432\u043e\u0440\u0438|\u0441\u043e\u043e\u0431\u0449\u0430\u0438|\u0433\u043e\u0432\u043e\u0440\u0438\u0442\u0435 ~2 \u043f\u043e\u043b\u044c\u0437\u043e\u0432\u0430\u0442\u0435\u043b\u044e",
  ]),
];

function createGroup(kind: FindingKind, severity: FindingSeverity, phrases: readonly string[]) {
  return { kind, severity, phrases };
}
