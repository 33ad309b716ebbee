import { describe, expect, test } from "vitest";
import { tokenize } from "./tokenize.ts";

const terms = (text: string) => tokenize(text).flatMap((word) => word.terms);

describe("words", () => {
  test.each([
    ["createIssue", ["creat", "issu"]],
    ["create_issue.draft-2", ["creat", "issu", "draft", "2"]],
    ["HTTPServer", ["http", "server"]],
    ["area51 s3 k8s", ["area", "51", "s3", "k8s"]],
    ["the user's files", ["the", "user", "file"]],
    ["Facturación", ["facturacion"]],
    ["ｆｕｌｌ ｗｉｄｔｈ", ["full", "width"]],
    ["Straße Łódź", ["strass", "lodz"]],
    ["Кошки Ωmega", ["кошки", "ωmega"]],
    ["メール", ["メー", "ール"]],
    ["犬 が", ["犬", "が"]],
    ["發送郵件", ["發送", "送郵", "郵件"]],
    ["이메일 보내기", ["이메", "메일", "보내", "내기"]],
    ["ﾒｰﾙ", ["メー", "ール"]],
    ["Excelファイル", ["excel", "ファ", "ァイ", "イル"]],
    ["🦆 -- !!", []],
  ])("%s", (text, expected) => {
    expect(terms(text)).toEqual(expected);
  });

  test("of several parts are also one word", () => {
    expect(tokenize("GitHub")).toEqual([
      { written: "GitHub", plain: "github", terms: ["git", "hub"], whole: "github" },
    ]);
  });

  test("keep their original spelling", () => {
    expect(tokenize("Crème brûlée's").map(({ written }) => written)).toEqual(["Crème", "brûlée's"]);
  });

  test("with different marks stay apart", () => {
    expect(terms("が")).not.toEqual(terms("か"));
  });
});
