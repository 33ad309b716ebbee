import { describe, expect, test } from "vitest";
import { createHitOrder } from "../hits.ts";
import { createLexicalIndex } from "./lexical-index.ts";
import { action, find, names } from "./testing.ts";

const invoice = action("billing__create_invoice", "Makes a bill for a customer.");
const report = action("office__write_report", {
  description:
    "Writes a long report about everything that happened in a month: meetings, visitors, deliveries, phone calls, and at the very end one line for each invoice, so that somebody can check it.",
});
const email = action("mcp__gmail__send_email", { description: "Sends a message.", tags: ["outbox"] });
const labels = action("mcp__github__list_labels", "Lists the labels of a repository.");
const issue = action("mcp__github__createIssue", {
  description: "Opens something to be done.",
  aliases: ["gh.new_issue"],
  properties: {
    assignee: { type: "string", description: "Who shall look after it" },
    where: { type: "object", properties: { milestone: { type: "string", enum: ["quarterly"] } } },
  },
  examples: [{ args: { assignee: "ada" }, description: "Triage a regression" }],
});
const all = [invoice, issue, labels, email, report].sort((a, b) => (a.name < b.name ? -1 : 1));

describe("relevance", () => {
  test("ranks a match in the name before one in a long text", () => {
    expect(names(all, "invoice")).toEqual([invoice.name, report.name]);
  });

  test.each([
    ["a part of the name", "issues", issue],
    ["the namespace", "gmail", email],
    ["an alias", "gh", issue],
    ["the description", "messages", email],
    ["a tag", "outbox", email],
    ["a parameter's name", "assignees", issue],
    ["a parameter's description", "look after", issue],
    ["a nested parameter", "milestone", issue],
    ["an allowed value", "quarterly", issue],
    ["an example", "regressions", issue],
  ])("finds by %s", (_, query, expected) => {
    expect(names(all, query)[0]).toBe(expected.name);
  });

  test("finds one word written as two, and two as one", () => {
    expect(names([action("clock__timezone"), invoice], "time zone")).toEqual(["clock__timezone"]);
    expect(names([action("todo__shopping_list"), invoice], "shoppinglist")).toEqual(["todo__shopping_list"]);
  });

  test("finds synonyms, after the word itself", () => {
    const pair = [action("file__erase"), action("file__remove"), invoice];

    expect(names(pair, "erase")).toEqual(["file__erase", "file__remove"]);
  });

  test("prefers an action with the verb of the query", () => {
    // Neither verb is in the query; by length of the name, the deletion would come first.
    const pair = [action("crm__drop_contact"), action("crm__inspect_contact")];

    expect(names(pair, "which contact")).toEqual(["crm__inspect_contact", "crm__drop_contact"]);
    expect(names(pair, "uninstall contact")).toEqual(["crm__drop_contact", "crm__inspect_contact"]);
  });

  test("prefers a name that the whole query matches", () => {
    const pair = [action("git__list_issue_comments"), action("git__list_issues")];

    expect(names(pair, "list issues")[0]).toBe("git__list_issues");
  });

  test("uses stop words if there are no other words", () => {
    expect(names([action("me__who_am_i"), invoice], "who am I")).toEqual(["me__who_am_i"]);
  });
});

describe("languages", () => {
  const polyglot = [
    action("mail__a", "メールを送信する"),
    action("calendar__b", "予定を作成する"),
    action("mail__c", "发送电子邮件"),
    action("billing__d", "Emite la facturacion del mes"),
    action("mail__e", "отправить письмо"),
    action("mail__f", "이메일을 보냅니다"),
    action("mail__g", "ส่งอีเมล"),
    action("mail__h", "إرسال بريد إلكتروني"),
  ];

  test.each([
    ["メールを送信する", "mail__a"],
    ["メール", "mail__a"],
    ["予定", "calendar__b"],
    ["予", "calendar__b"],
    ["电子邮件", "mail__c"],
    ["facturación", "billing__d"],
    ["ПИСЬМО", "mail__e"],
    ["이메일", "mail__f"],
    ["อีเมล", "mail__g"],
    ["بريد", "mail__h"],
  ])("%s", (query, expected) => {
    expect(names(polyglot, query)[0]).toBe(expected);
  });
});

describe("spelling", () => {
  test.each([
    ["invoce", invoice],
    ["invocie", invoice],
    ["inwoice", invoice],
    ["repositroy", labels],
    ["repo", labels],
  ])("%s", (query, expected) => {
    expect(names(all, query)[0]).toBe(expected.name);
  });

  test("does not correct short or known words", () => {
    const pair = [action("a__cat"), action("a__car"), action("a__table"), action("a__cable")];

    expect(names(pair, "cap")).toEqual([]);
    expect(names(pair, "table")).toEqual(["a__table"]);
  });

  test("does not match a much longer word", () => {
    expect(names(all, "repudiatory")).toEqual([]);
  });
});

describe("names", () => {
  test.each(["mcp__github__createIssue", "MCP__GITHUB__CREATEISSUE", "gh.new_issue", " gh.new_issue "])(
    "%s is found first, with score 1",
    (query) => {
      expect(find(all, query).hits[0]).toEqual({ action: issue, score: 1 });
      expect(find(all, query).unmatched).toEqual([]);
    },
  );

  test("only a name has score 1", () => {
    const same = action("create__invoice", "create invoice");

    expect(find([same], "create invoice").hits[0]?.score).toBeLessThan(1);
  });

  test("select: returns exactly these, in this order", () => {
    const { hits, unmatched } = find(
      all,
      "select: office__write_report, gh.new_issue,gone__away,,office__write_report",
    );

    expect(hits).toEqual([
      { action: report, score: 1 },
      { action: issue, score: 1 },
    ]);
    expect(unmatched).toEqual(["gone__away"]);
  });

  test("select: does not distinguish hidden and unknown names", () => {
    expect(find(all, "select:gh.new_issue", { hidden: [issue] })).toEqual({ hits: [], unmatched: ["gh.new_issue"] });
  });
});

describe("scores", () => {
  test("are within 0 and 1, best first", () => {
    for (const query of ["create invoice customer bill", "message", "labels repository list invoice", invoice.name]) {
      const scores = find(all, query).hits.map(({ score }) => score);

      expect(scores.length).toBeGreaterThan(0);
      expect(scores.every((score) => score > 0 && score <= 1)).toBe(true);
      expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    }
  });

  test("tell how much of the query matches", () => {
    const score = (query: string) => find(all, query).hits[0]?.score ?? 0;

    expect(score("create invoice")).toBeGreaterThan(0.6);
    expect(score("create invoice zeppelin harbour walrus")).toBeLessThan(score("create invoice") / 2);
  });

  test("that are equal are sorted by the given order, also at the limit", () => {
    const twins = ["a", "b", "c", "d"].map((category) =>
      action(`${category}__ping`, { description: "Pings.", effect: category === "c" ? "pure" : "write" }),
    );
    const order = createHitOrder(["d"]);

    expect(names(twins, "ping", { order })).toEqual(["d__ping", "c__ping", "a__ping", "b__ping"]);
    expect(names(twins, "ping", { order, limit: 2 })).toEqual(["d__ping", "c__ping"]);
    expect(names(all, "invoice labels", { limit: 2 })).toEqual(names(all, "invoice labels").slice(0, 2));
    expect(find(twins, "ping", { order })).toEqual(find(twins, "ping", { order }));
  });
});

describe("no match", () => {
  test("returns no hits, and the unmatched words", () => {
    expect(find(all, "Please knit me a purple Sweater")).toEqual({
      hits: [],
      unmatched: ["knit", "purple", "Sweater"],
    });
  });

  test("is also the result if only one common word of many matches", () => {
    const many = Array.from({ length: 40 }, (_, at) => action(`crm__thing_${at}`, "Works on the current customer."));

    expect(find(many, "tune guitar strings current pitch").hits).toEqual([]);
    expect(find(many, "current customer").hits).not.toEqual([]);
  });

  test("does not hide a match in a long request about something else", () => {
    const query =
      "Yesterday evening my neighbour Walter told me over dinner that his brother urgently needs an invoice before Friday";

    expect(names(all, query)[0]).toBe(invoice.name);
  });

  test("reports a compound word only if no part matches", () => {
    expect(find(all, "createZeppelin fooBarBaz").unmatched).toEqual(["fooBarBaz"]);
  });
});

describe("any text", () => {
  const hostile = [
    "constructor",
    "__proto__",
    "hasOwnProperty toString valueOf",
    '"unbalanced AND (NEAR/2 OR *',
    "a:b^2 -c +d ~e {f} [g]",
    "🦆🦆🦆",
    "\ud800 lone \udc00",
    "\0\u202e\u200b",
    "x".repeat(10_000),
    "漢".repeat(10_000),
    "word ".repeat(2_000),
    Array.from({ length: 2_000 }, (_, at) => `w${at}`).join(" "),
    "select:",
    "select:,,,",
    "'’'’'",
  ];

  test.each(hostile.map((query) => [query.slice(0, 30), query]))("%s is answered", (_, query) => {
    const { hits, unmatched } = find(all, query);

    expect(hits.every(({ score }) => score > 0 && score <= 1)).toBe(true);
    expect(unmatched.length).toBeLessThanOrEqual(64);
  });

  test.each(["", "   ", "\n", "!?"])("%j returns nothing", (query) => {
    expect(find(all, query)).toEqual({ hits: [], unmatched: [] });
  });

  test("may be the name of an object property", () => {
    const odd = [action("js__constructor"), action("js____proto__"), invoice];

    expect(names(odd, "constructor")).toEqual(["js__constructor"]);
    expect(names(odd, "js____proto__")[0]).toBe("js____proto__");
  });

  test("can search an empty catalog", () => {
    expect(find([], "invoice")).toEqual({ hits: [], unmatched: ["invoice"] });
  });
});

describe("a catalog that changes", () => {
  const changed = action("mcp__gmail__send_email", { description: "Sends a message.", properties: { priority: {} } });
  const before = createLexicalIndex(all);
  const now = all.map((each) => (each === email ? changed : each)).filter((each) => each !== report);
  const after = createLexicalIndex(now, before);

  test("gives the same results as a new index", () => {
    for (const query of ["priority", "invoice", "report", "visitors", "message invoice label", "invoce"]) {
      expect(find(now, query, { index: after })).toEqual(find(now, query));
    }
  });

  test("includes a change of only the schema", () => {
    expect(names(all, "priority", { index: before })).toEqual([]);
    expect(names(now, "priority", { index: after })).toEqual([changed.name]);
  });

  test("does not change the earlier index", () => {
    expect(names(all, "visitors", { index: before })).toEqual([report.name]);
  });

  test("analyses only new actions", () => {
    let read = 0;
    const watched = now.map(
      (each) =>
        new Proxy(each, {
          get: (target, key) => {
            if (key === "inputSchema") read++;
            return Reflect.get(target, key);
          },
        }),
    );
    const first = createLexicalIndex(watched);
    expect(read).toBe(watched.length);
    read = 0;

    createLexicalIndex([...watched.slice(1), action("new__one")], first);

    expect(read).toBe(0);
  });

  test("drops the words of removed actions", () => {
    let index = createLexicalIndex([]);
    for (let at = 0; at < 50; at++)
      index = createLexicalIndex([action(`x__y`, `word${at}a word${at}b word${at}c`)], index);

    expect(
      (index as unknown as { postings: { vocabulary: { terms: string[] } } }).postings.vocabulary.terms.length,
    ).toBeLessThan(40);
  });
});

describe("accepting", () => {
  test("does not change the scores of the others", () => {
    const whole = find(all, "list labels of a repository or create an issue").hits;
    const some = find(all, "list labels of a repository or create an issue", {
      accepts: (each) => each !== labels,
    }).hits;

    expect(some).toEqual(whole.filter((hit) => hit.action !== labels));
    expect(names(all, issue.name, { accepts: (each) => each !== issue })).not.toContain(issue.name);
  });

  test("finds accepted actions behind refused ones", () => {
    const many = Array.from({ length: 30 }, (_, at) => action(`crm__contact_${"x".repeat(at)}`, "contact"));
    const last = many.at(-1);

    expect(names(many, "contact", { limit: 1, accepts: (each) => each === last })).toEqual([last?.name]);
  });
});

describe("too weak matches", () => {
  const files = ["read", "write", "list", "edit"].map((entry) => action(`file__${entry}`, `Can ${entry} the file.`));

  test("a common word beside an unknown word is not enough", () => {
    expect(find(files, "rename a file")).toEqual({ hits: [], unmatched: ["rename"] });
    expect(names(files, "file")).toHaveLength(4);
  });

  test("stop words match names, not descriptions", () => {
    const who = action("shell__who", "Shows the users.");

    expect(names([...files, who], "the")).toEqual([]);
    expect(names([...files, who], "who")).toEqual([who.name]);
  });

  test("an empty result lists every unknown word, also if a similar word exists", () => {
    const flight = action("travel__book_flight", "Books a flight.");

    expect(find([flight, ...files], "turn on the flights").unmatched).toEqual(["turn"]);
    expect(find([flight, ...files], "zzz qqq lights www").unmatched).toEqual(["zzz", "qqq", "lights", "www"]);
  });

  test("leaves out stop words, and beside hits also numbers and vague words", () => {
    expect(find(files, "please help me with the").unmatched).toEqual([]);
    expect(find(files, "read two files without using 7 zeppelins").unmatched).toEqual(["zeppelins"]);
    expect(find(files, "time").unmatched).toEqual(["time"]);
  });

  test("a faint match of similar words in a long text is no hit", () => {
    const coerce = action("data__coerce", `${"Converts items of a list. ".repeat(30)}Marks what to schedule.`);
    const others = ["trim", "pad", "fold", "cut", "wrap"].map((entry) =>
      action(`data__${entry}`, `Can ${entry} a text.`),
    );

    expect(find([coerce, ...others], "book a flight to mars")).toEqual({
      hits: [],
      unmatched: ["book", "flight", "mars"],
    });
    expect(names([coerce, ...others], "schedule marks zeppelin")).toEqual([coerce.name]);
  });

  test("one unknown word lowers the score a little", () => {
    const [alone] = find(files, "read").hits;
    const [beside] = find(files, "zzzqq read").hits;

    expect(alone?.action.name).toBe("file__read");
    expect(beside?.action.name).toBe("file__read");
    expect(beside?.score).toBeLessThan(alone?.score ?? 0);
    expect(beside?.score).toBeGreaterThan(0.1);
  });
});

describe("a short name", () => {
  test("finds its action first, with the full score", () => {
    expect(find(all, "send_email").hits[0]).toEqual({ action: email, score: 1 });
    expect(find(all, "select:write_report,createissue").hits.map((hit) => hit.action)).toEqual([report, issue]);
  });
});
