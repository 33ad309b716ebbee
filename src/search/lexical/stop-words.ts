/** Words that carry a sentence but say nothing about what is wanted. */
export const stopWords: ReadonlySet<string> = new Set(
  `a an the this that these those there here it its i me my mine myself we us our ours you your yours he him his she her
  hers they them their theirs who whom whose which what when where why how is am are was were be been being do does did
  doing done have has had having can could would should will shall may might must and or but nor if then than so as of at
  by for with about into to from in because while until during although though also just only even very really too
  please kindly hello hi hey thanks thank let lets im ive id ill youre theyre dont don doesnt cant wont isnt whats want
  wants wanted need needs needed like wish trying try looking look help hoping able some any each such own same
  other`.split(/\s+/),
);

/** Words that say little: how something is asked for, or which way round. */
export const softWords: ReadonlySet<string> = new Set(
  `on off up down out over under again more most all both between before after through within without against no not
  get give show tell find provide make use using used specific current currently information info detail details know
  see go going take check available based related given following including include new one two first recommend suggest
  api tool tools function functions model data best good great different various latest way ways thing things something
  anything time etc via per called named name names`.split(/\s+/),
);
