/*
 * The prefixes and lengths below are taken from the rules of gitleaks (https://github.com/gitleaks/gitleaks,
 * config/gitleaks.toml at b58d3f1), cut down to those that begin with a fixed text and rewritten so that each is
 * searched for by that text. gitleaks is under this licence:
 *
 * MIT License
 *
 * Copyright (c) 2019 Zachary Rice
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
 * documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
 * rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
 * persons to whom the Software is furnished to do so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
 * Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
 * WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
 * COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
 * OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */

/**
 * Tokens of services, each as the text it begins with and what follows it. `rest` is one repetition, or several with
 * fixed lengths, so that it fails after a fixed number of characters or not at all.
 */
export const secretPrefixes: readonly (readonly [prefix: string, rest: string])[] = [
  ["A3-", "[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}(?:-[A-Z0-9]{5}){0,2}"],
  ["ABSK", "[A-Za-z0-9+/]{109,269}"],
  ["AGE-SECRET-KEY-1", "[A-Z0-9]{58}"],
  ["AKCp", "[A-Za-z0-9]{69}"],
  ["API-", "[A-Z0-9]{26}(?!\\w)"],
  ["CLOJARS_", "[a-z0-9]{60}"],
  ["EAAC", "[A-Za-z0-9]{100,}"],
  ["EAAM", "[A-Za-z0-9]{100,}"],
  ["EZAK", "[A-Za-z0-9]{54}"],
  ["EZTK", "[A-Za-z0-9]{54}"],
  ["FLWSECK_TEST-", "[a-h0-9]{12,}"],
  ["GR1348941", "[\\w-]{20,}"],
  ["HRKU-AA", "[\\w-]{58}"],
  ["LTAI", "[A-Za-z0-9]{20}(?!\\w)"],
  ["PMAK-", "[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}"],
  ["SG.", "[\\w=-]{16,}\\.[\\w=-]{16,}"],
  ["api_org_", "[A-Za-z0-9]{34,}"],
  ["bedrock-api-key-", "[A-Za-z0-9+/=]{20,}"],
  ["cmVmd", "[A-Za-z0-9]{59}(?!\\w)"],
  ["dapi", "[a-f0-9]{32}"],
  ["discord.com/api/webhooks/", "\\d{17,20}/[\\w-]{60,80}"],
  ["doo_v1_", "[a-f0-9]{64}"],
  ["dop_v1_", "[a-f0-9]{64}"],
  ["dor_v1_", "[a-f0-9]{64}"],
  ["dp.pt.", "[A-Za-z0-9]{43}"],
  ["dt0c01.", "[A-Za-z0-9]{24}\\.[A-Za-z0-9]{64}"],
  ["duffel_live_", "[\\w=-]{43}"],
  ["duffel_test_", "[\\w=-]{43}"],
  ["fio-u-", "[\\w=-]{64}"],
  ["fm1a_", "[A-Za-z0-9+/]{100,}={0,3}"],
  ["fm1r_", "[A-Za-z0-9+/]{100,}={0,3}"],
  ["fm2_", "[A-Za-z0-9+/]{100,}={0,3}"],
  ["fo1_", "[\\w-]{43}"],
  ["glagent-", "[\\w-]{50,}"],
  ["glc_", "[A-Za-z0-9+/]{32,}={0,3}"],
  ["glcbt-", "\\w{1,5}_[\\w-]{20,}"],
  ["gldt-", "[\\w-]{20,}"],
  ["glffct-", "[\\w-]{20,}"],
  ["glft-", "[\\w-]{20,}"],
  ["glimt-", "[\\w-]{25,}"],
  ["gloas-", "[\\w-]{64,}"],
  ["glptt-", "[a-f0-9]{40}"],
  ["glrt-", "[\\w.-]{20,}"],
  ["glsa_", "[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"],
  ["glsoat-", "[\\w-]{20,}"],
  ["hf_", "[A-Za-z0-9]{30,}"],
  ["hooks.slack.com/services/", "[A-Za-z0-9+/]{40,}"],
  ["hooks.slack.com/triggers/", "[A-Za-z0-9+/]{40,}"],
  ["hooks.slack.com/workflows/", "[A-Za-z0-9+/]{40,}"],
  ["hvb.", "[\\w-]{100,}"],
  ["hvs.", "[\\w-]{80,}"],
  ["ico-", "[A-Za-z0-9]{32}(?!\\w)"],
  ["lin_api_", "[A-Za-z0-9]{40}"],
  ["ntn_", "\\d{11}[A-Za-z0-9]{35}"],
  ["ops_eyJ", "[A-Za-z0-9+/]{200,}={0,3}"],
  ["p8e-", "[A-Za-z0-9]{32}"],
  ["pat.", "[\\w-]{22}\\.[A-Za-z0-9]{24}\\.[A-Za-z0-9]{20}"],
  ["pnu_", "[A-Za-z0-9]{36}"],
  ["pplx-", "[A-Za-z0-9]{48}"],
  ["pscale_oauth_", "[\\w=.-]{32,}"],
  ["pscale_pw_", "[\\w=.-]{32,}"],
  ["pscale_tkn_", "[\\w=.-]{32,}"],
  ["pul-", "[a-f0-9]{40}"],
  ["pypi-AgEIcHlwaS5vcmc", "[\\w-]{50,}"],
  ["rdme_", "[a-z0-9]{70}"],
  ["rubygems_", "[a-f0-9]{48}"],
  ["s-s4t2af-", "[a-f0-9]{64}"],
  ["s-s4t2ud-", "[a-f0-9]{64}"],
  ["sat.", "[\\w-]{22}\\.[A-Za-z0-9]{24}\\.[A-Za-z0-9]{20}"],
  ["sgp_", "(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"],
  ["sha256~", "[\\w-]{43}"],
  ["shippo_live_", "[A-Fa-f0-9]{40}"],
  ["shippo_test_", "[A-Fa-f0-9]{40}"],
  ["shpat_", "[A-Fa-f0-9]{32}"],
  ["shpca_", "[A-Fa-f0-9]{32}"],
  ["shppa_", "[A-Fa-f0-9]{32}"],
  ["shpss_", "[A-Fa-f0-9]{32}"],
  ["sm_aat_", "[A-Za-z0-9]{16}"],
  ["sm_pat_", "[A-Za-z0-9]{16}"],
  ["sm_sat_", "[A-Za-z0-9]{16}"],
  ["sntrys_", "[\\w+/=-]{40,}"],
  ["sntryu_", "[a-f0-9]{64}"],
  ["sq0atp-", "[\\w-]{22,}"],
  ["tfp_", "[\\w.=-]{59}"],
  ["tk-us-", "[\\w-]{48}"],
  ["xapp-", "\\d-[A-Za-z0-9]{8,16}-\\d{8,16}-[A-Za-z0-9]{20,}"],
  ["xkeysib-", "[a-f0-9]{64}-[A-Za-z0-9]{16}"],
  ["xoxe.xox", "[bp]-\\d-[A-Za-z0-9]{100,}"],
  // Not of gitleaks: access tokens of Google.
  ["ya29.", "[\\w-]{20,}"],
];
