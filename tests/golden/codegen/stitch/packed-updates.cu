// block 128 x10 packing 80 parts: 80 x (vec 1 chunks 1)
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 10)
sinter_stitch(const float* operand0,
    const u16* __restrict__ operand1,
    const float* operand2,
    const float* __restrict__ operand3,
    const float* operand4,
    const u16* __restrict__ operand5,
    const float* operand6,
    const float* operand7,
    const u16* __restrict__ operand8,
    const float* operand9,
    const float* operand10,
    const u16* __restrict__ operand11,
    const float* operand12,
    const float* operand13,
    const u16* __restrict__ operand14,
    const float* operand15,
    const float* operand16,
    const u16* __restrict__ operand17,
    const float* operand18,
    const float* operand19,
    const u16* __restrict__ operand20,
    const float* operand21,
    const float* operand22,
    const u16* __restrict__ operand23,
    const float* operand24,
    const float* operand25,
    const u16* __restrict__ operand26,
    const float* operand27,
    const float* operand28,
    const u16* __restrict__ operand29,
    const float* operand30,
    const float* operand31,
    const u16* __restrict__ operand32,
    const float* operand33,
    const float* operand34,
    const u16* __restrict__ operand35,
    const float* operand36,
    const float* operand37,
    const u16* __restrict__ operand38,
    const float* operand39,
    const float* operand40,
    const u16* __restrict__ operand41,
    const float* operand42,
    const float* operand43,
    const u16* __restrict__ operand44,
    const float* operand45,
    const float* operand46,
    const u16* __restrict__ operand47,
    const float* operand48,
    const float* operand49,
    const u16* __restrict__ operand50,
    const float* operand51,
    const float* operand52,
    const u16* __restrict__ operand53,
    const float* operand54,
    const float* operand55,
    const u16* __restrict__ operand56,
    const float* operand57,
    const float* operand58,
    const u16* __restrict__ operand59,
    const float* operand60,
    const float* operand61,
    const u16* __restrict__ operand62,
    const float* operand63,
    const float* operand64,
    const u16* __restrict__ operand65,
    const float* operand66,
    const float* operand67,
    const u16* __restrict__ operand68,
    const float* operand69,
    const float* operand70,
    const u16* __restrict__ operand71,
    const float* operand72,
    const float* operand73,
    const u16* __restrict__ operand74,
    const float* operand75,
    const float* operand76,
    const u16* __restrict__ operand77,
    const float* operand78,
    const float* operand79,
    const u16* __restrict__ operand80,
    const float* operand81,
    const float* operand82,
    const u16* __restrict__ operand83,
    const float* operand84,
    const float* operand85,
    const u16* __restrict__ operand86,
    const float* operand87,
    const float* operand88,
    const u16* __restrict__ operand89,
    const float* operand90,
    const float* operand91,
    const u16* __restrict__ operand92,
    const float* operand93,
    const float* operand94,
    const u16* __restrict__ operand95,
    const float* operand96,
    const float* operand97,
    const u16* __restrict__ operand98,
    const float* operand99,
    const float* operand100,
    const u16* __restrict__ operand101,
    const float* operand102,
    const float* operand103,
    const u16* __restrict__ operand104,
    const float* operand105,
    const float* operand106,
    const u16* __restrict__ operand107,
    const float* operand108,
    const float* operand109,
    const u16* __restrict__ operand110,
    const float* operand111,
    const float* operand112,
    const u16* __restrict__ operand113,
    const float* operand114,
    const float* operand115,
    const u16* __restrict__ operand116,
    const float* operand117,
    const float* operand118,
    const u16* __restrict__ operand119,
    const float* operand120,
    const float* operand121,
    const u16* __restrict__ operand122,
    const float* operand123,
    const float* operand124,
    const u16* __restrict__ operand125,
    const float* operand126,
    const float* operand127,
    const u16* __restrict__ operand128,
    const float* operand129,
    const float* operand130,
    const u16* __restrict__ operand131,
    const float* operand132,
    const float* operand133,
    const u16* __restrict__ operand134,
    const float* operand135,
    const float* operand136,
    const u16* __restrict__ operand137,
    const float* operand138,
    const float* operand139,
    const u16* __restrict__ operand140,
    const float* operand141,
    const float* operand142,
    const u16* __restrict__ operand143,
    const float* operand144,
    const float* operand145,
    const u16* __restrict__ operand146,
    const float* operand147,
    const float* operand148,
    const u16* __restrict__ operand149,
    const float* operand150,
    const float* operand151,
    const u16* __restrict__ operand152,
    const float* operand153,
    const float* operand154,
    const u16* __restrict__ operand155,
    const float* operand156,
    const float* operand157,
    const u16* __restrict__ operand158,
    const float* operand159,
    const float* operand160,
    const u16* __restrict__ operand161,
    const float* operand162,
    const float* operand163,
    const u16* __restrict__ operand164,
    const float* operand165,
    const float* operand166,
    const u16* __restrict__ operand167,
    const float* operand168,
    const float* operand169,
    const u16* __restrict__ operand170,
    const float* operand171,
    const float* operand172,
    const u16* __restrict__ operand173,
    const float* operand174,
    const float* operand175,
    const u16* __restrict__ operand176,
    const float* operand177,
    const float* operand178,
    const u16* __restrict__ operand179,
    const float* operand180,
    const float* operand181,
    const u16* __restrict__ operand182,
    const float* operand183,
    const float* operand184,
    const u16* __restrict__ operand185,
    const float* operand186,
    const float* operand187,
    const u16* __restrict__ operand188,
    const float* operand189,
    const float* operand190,
    const u16* __restrict__ operand191,
    const float* operand192,
    const float* operand193,
    const u16* __restrict__ operand194,
    const float* operand195,
    const float* operand196,
    const u16* __restrict__ operand197,
    const float* operand198,
    const float* operand199,
    const u16* __restrict__ operand200,
    const float* operand201,
    const float* operand202,
    const u16* __restrict__ operand203,
    const float* operand204,
    const float* operand205,
    const u16* __restrict__ operand206,
    const float* operand207,
    const float* operand208,
    const u16* __restrict__ operand209,
    const float* operand210,
    const float* operand211,
    const u16* __restrict__ operand212,
    const float* operand213,
    const float* operand214,
    const u16* __restrict__ operand215,
    const float* operand216,
    const float* operand217,
    const u16* __restrict__ operand218,
    const float* operand219,
    const float* operand220,
    const u16* __restrict__ operand221,
    const float* operand222,
    const float* operand223,
    const u16* __restrict__ operand224,
    const float* operand225,
    const float* operand226,
    const u16* __restrict__ operand227,
    const float* operand228,
    const float* operand229,
    const u16* __restrict__ operand230,
    const float* operand231,
    const float* operand232,
    const u16* __restrict__ operand233,
    const float* operand234,
    const float* operand235,
    const u16* __restrict__ operand236,
    const float* operand237,
    const float* operand238,
    const u16* __restrict__ operand239,
    const float* operand240,
    float* operand241,
    float* operand242,
    u16* __restrict__ operand243,
    float* operand244,
    float* operand245,
    u16* __restrict__ operand246,
    float* operand247,
    float* operand248,
    u16* __restrict__ operand249,
    float* operand250,
    float* operand251,
    u16* __restrict__ operand252,
    float* operand253,
    float* operand254,
    u16* __restrict__ operand255,
    float* operand256,
    float* operand257,
    u16* __restrict__ operand258,
    float* operand259,
    float* operand260,
    u16* __restrict__ operand261,
    float* operand262,
    float* operand263,
    u16* __restrict__ operand264,
    float* operand265,
    float* operand266,
    u16* __restrict__ operand267,
    float* operand268,
    float* operand269,
    u16* __restrict__ operand270,
    float* operand271,
    float* operand272,
    u16* __restrict__ operand273,
    float* operand274,
    float* operand275,
    u16* __restrict__ operand276,
    float* operand277,
    float* operand278,
    u16* __restrict__ operand279,
    float* operand280,
    float* operand281,
    u16* __restrict__ operand282,
    float* operand283,
    float* operand284,
    u16* __restrict__ operand285,
    float* operand286,
    float* operand287,
    u16* __restrict__ operand288,
    float* operand289,
    float* operand290,
    u16* __restrict__ operand291,
    float* operand292,
    float* operand293,
    u16* __restrict__ operand294,
    float* operand295,
    float* operand296,
    u16* __restrict__ operand297,
    float* operand298,
    float* operand299,
    u16* __restrict__ operand300,
    float* operand301,
    float* operand302,
    u16* __restrict__ operand303,
    float* operand304,
    float* operand305,
    u16* __restrict__ operand306,
    float* operand307,
    float* operand308,
    u16* __restrict__ operand309,
    float* operand310,
    float* operand311,
    u16* __restrict__ operand312,
    float* operand313,
    float* operand314,
    u16* __restrict__ operand315,
    float* operand316,
    float* operand317,
    u16* __restrict__ operand318,
    float* operand319,
    float* operand320,
    u16* __restrict__ operand321,
    float* operand322,
    float* operand323,
    u16* __restrict__ operand324,
    float* operand325,
    float* operand326,
    u16* __restrict__ operand327,
    float* operand328,
    float* operand329,
    u16* __restrict__ operand330,
    float* operand331,
    float* operand332,
    u16* __restrict__ operand333,
    float* operand334,
    float* operand335,
    u16* __restrict__ operand336,
    float* operand337,
    float* operand338,
    u16* __restrict__ operand339,
    float* operand340,
    float* operand341,
    u16* __restrict__ operand342,
    float* operand343,
    float* operand344,
    u16* __restrict__ operand345,
    float* operand346,
    float* operand347,
    u16* __restrict__ operand348,
    float* operand349,
    float* operand350,
    u16* __restrict__ operand351,
    float* operand352,
    float* operand353,
    u16* __restrict__ operand354,
    float* operand355,
    float* operand356,
    u16* __restrict__ operand357,
    float* operand358,
    float* operand359,
    u16* __restrict__ operand360,
    float* operand361,
    float* operand362,
    u16* __restrict__ operand363,
    float* operand364,
    float* operand365,
    u16* __restrict__ operand366,
    float* operand367,
    float* operand368,
    u16* __restrict__ operand369,
    float* operand370,
    float* operand371,
    u16* __restrict__ operand372,
    float* operand373,
    float* operand374,
    u16* __restrict__ operand375,
    float* operand376,
    float* operand377,
    u16* __restrict__ operand378,
    float* operand379,
    float* operand380,
    u16* __restrict__ operand381,
    float* operand382,
    float* operand383,
    u16* __restrict__ operand384,
    float* operand385,
    float* operand386,
    u16* __restrict__ operand387,
    float* operand388,
    float* operand389,
    u16* __restrict__ operand390,
    float* operand391,
    float* operand392,
    u16* __restrict__ operand393,
    float* operand394,
    float* operand395,
    u16* __restrict__ operand396,
    float* operand397,
    float* operand398,
    u16* __restrict__ operand399,
    float* operand400,
    float* operand401,
    u16* __restrict__ operand402,
    float* operand403,
    float* operand404,
    u16* __restrict__ operand405,
    float* operand406,
    float* operand407,
    u16* __restrict__ operand408,
    float* operand409,
    float* operand410,
    u16* __restrict__ operand411,
    float* operand412,
    float* operand413,
    u16* __restrict__ operand414,
    float* operand415,
    float* operand416,
    u16* __restrict__ operand417,
    float* operand418,
    float* operand419,
    u16* __restrict__ operand420,
    float* operand421,
    float* operand422,
    u16* __restrict__ operand423,
    float* operand424,
    float* operand425,
    u16* __restrict__ operand426,
    float* operand427,
    float* operand428,
    u16* __restrict__ operand429,
    float* operand430,
    float* operand431,
    u16* __restrict__ operand432,
    float* operand433,
    float* operand434,
    u16* __restrict__ operand435,
    float* operand436,
    float* operand437,
    u16* __restrict__ operand438,
    float* operand439,
    float* operand440,
    u16* __restrict__ operand441,
    float* operand442,
    float* operand443,
    u16* __restrict__ operand444,
    float* operand445,
    float* operand446,
    u16* __restrict__ operand447,
    float* operand448,
    float* operand449,
    u16* __restrict__ operand450,
    float* operand451,
    float* operand452,
    u16* __restrict__ operand453,
    float* operand454,
    float* operand455,
    u16* __restrict__ operand456,
    float* operand457,
    float* operand458,
    u16* __restrict__ operand459,
    float* operand460,
    float* operand461,
    u16* __restrict__ operand462,
    float* operand463,
    float* operand464,
    u16* __restrict__ operand465,
    float* operand466,
    float* operand467,
    u16* __restrict__ operand468,
    float* operand469,
    float* operand470,
    u16* __restrict__ operand471,
    float* operand472,
    float* operand473,
    u16* __restrict__ operand474,
    float* operand475,
    float* operand476,
    u16* __restrict__ operand477,
    float* operand478,
    float* operand479,
    u16* __restrict__ operand480,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  {  // 80 parts from block 0
  const float* in0;
  const u16* __restrict__ in1;
  const float* in2;
  const float* __restrict__ in3;
  float* out0;
  float* out1;
  u16* __restrict__ out2;
  long long size0;
  unsigned first, blocks;
  if (blockIdx.x < 3840u) {
  if (blockIdx.x < 1920u) {
  if (blockIdx.x < 960u) {
  if (blockIdx.x < 480u) {
  if (blockIdx.x < 192u) {
  if (blockIdx.x < 96u) {
    in0 = operand0; in1 = operand1; in2 = operand2; in3 = operand3; out0 = operand241; out1 = operand242; out2 = operand243; size0 = 12288ll; first = 0u; blocks = 96u;
  } else {
    in0 = operand4; in1 = operand5; in2 = operand6; in3 = operand3; out0 = operand244; out1 = operand245; out2 = operand246; size0 = 12288ll; first = 96u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 288u) {
    in0 = operand7; in1 = operand8; in2 = operand9; in3 = operand3; out0 = operand247; out1 = operand248; out2 = operand249; size0 = 12288ll; first = 192u; blocks = 96u;
  } else {
  if (blockIdx.x < 384u) {
    in0 = operand10; in1 = operand11; in2 = operand12; in3 = operand3; out0 = operand250; out1 = operand251; out2 = operand252; size0 = 12288ll; first = 288u; blocks = 96u;
  } else {
    in0 = operand13; in1 = operand14; in2 = operand15; in3 = operand3; out0 = operand253; out1 = operand254; out2 = operand255; size0 = 12288ll; first = 384u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 672u) {
  if (blockIdx.x < 576u) {
    in0 = operand16; in1 = operand17; in2 = operand18; in3 = operand3; out0 = operand256; out1 = operand257; out2 = operand258; size0 = 12288ll; first = 480u; blocks = 96u;
  } else {
    in0 = operand19; in1 = operand20; in2 = operand21; in3 = operand3; out0 = operand259; out1 = operand260; out2 = operand261; size0 = 12288ll; first = 576u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 768u) {
    in0 = operand22; in1 = operand23; in2 = operand24; in3 = operand3; out0 = operand262; out1 = operand263; out2 = operand264; size0 = 12288ll; first = 672u; blocks = 96u;
  } else {
  if (blockIdx.x < 864u) {
    in0 = operand25; in1 = operand26; in2 = operand27; in3 = operand3; out0 = operand265; out1 = operand266; out2 = operand267; size0 = 12288ll; first = 768u; blocks = 96u;
  } else {
    in0 = operand28; in1 = operand29; in2 = operand30; in3 = operand3; out0 = operand268; out1 = operand269; out2 = operand270; size0 = 12288ll; first = 864u; blocks = 96u;
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 1440u) {
  if (blockIdx.x < 1152u) {
  if (blockIdx.x < 1056u) {
    in0 = operand31; in1 = operand32; in2 = operand33; in3 = operand3; out0 = operand271; out1 = operand272; out2 = operand273; size0 = 12288ll; first = 960u; blocks = 96u;
  } else {
    in0 = operand34; in1 = operand35; in2 = operand36; in3 = operand3; out0 = operand274; out1 = operand275; out2 = operand276; size0 = 12288ll; first = 1056u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 1248u) {
    in0 = operand37; in1 = operand38; in2 = operand39; in3 = operand3; out0 = operand277; out1 = operand278; out2 = operand279; size0 = 12288ll; first = 1152u; blocks = 96u;
  } else {
  if (blockIdx.x < 1344u) {
    in0 = operand40; in1 = operand41; in2 = operand42; in3 = operand3; out0 = operand280; out1 = operand281; out2 = operand282; size0 = 12288ll; first = 1248u; blocks = 96u;
  } else {
    in0 = operand43; in1 = operand44; in2 = operand45; in3 = operand3; out0 = operand283; out1 = operand284; out2 = operand285; size0 = 12288ll; first = 1344u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 1632u) {
  if (blockIdx.x < 1536u) {
    in0 = operand46; in1 = operand47; in2 = operand48; in3 = operand3; out0 = operand286; out1 = operand287; out2 = operand288; size0 = 12288ll; first = 1440u; blocks = 96u;
  } else {
    in0 = operand49; in1 = operand50; in2 = operand51; in3 = operand3; out0 = operand289; out1 = operand290; out2 = operand291; size0 = 12288ll; first = 1536u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 1728u) {
    in0 = operand52; in1 = operand53; in2 = operand54; in3 = operand3; out0 = operand292; out1 = operand293; out2 = operand294; size0 = 12288ll; first = 1632u; blocks = 96u;
  } else {
  if (blockIdx.x < 1824u) {
    in0 = operand55; in1 = operand56; in2 = operand57; in3 = operand3; out0 = operand295; out1 = operand296; out2 = operand297; size0 = 12288ll; first = 1728u; blocks = 96u;
  } else {
    in0 = operand58; in1 = operand59; in2 = operand60; in3 = operand3; out0 = operand298; out1 = operand299; out2 = operand300; size0 = 12288ll; first = 1824u; blocks = 96u;
  }
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 2880u) {
  if (blockIdx.x < 2400u) {
  if (blockIdx.x < 2112u) {
  if (blockIdx.x < 2016u) {
    in0 = operand61; in1 = operand62; in2 = operand63; in3 = operand3; out0 = operand301; out1 = operand302; out2 = operand303; size0 = 12288ll; first = 1920u; blocks = 96u;
  } else {
    in0 = operand64; in1 = operand65; in2 = operand66; in3 = operand3; out0 = operand304; out1 = operand305; out2 = operand306; size0 = 12288ll; first = 2016u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 2208u) {
    in0 = operand67; in1 = operand68; in2 = operand69; in3 = operand3; out0 = operand307; out1 = operand308; out2 = operand309; size0 = 12288ll; first = 2112u; blocks = 96u;
  } else {
  if (blockIdx.x < 2304u) {
    in0 = operand70; in1 = operand71; in2 = operand72; in3 = operand3; out0 = operand310; out1 = operand311; out2 = operand312; size0 = 12288ll; first = 2208u; blocks = 96u;
  } else {
    in0 = operand73; in1 = operand74; in2 = operand75; in3 = operand3; out0 = operand313; out1 = operand314; out2 = operand315; size0 = 12288ll; first = 2304u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 2592u) {
  if (blockIdx.x < 2496u) {
    in0 = operand76; in1 = operand77; in2 = operand78; in3 = operand3; out0 = operand316; out1 = operand317; out2 = operand318; size0 = 12288ll; first = 2400u; blocks = 96u;
  } else {
    in0 = operand79; in1 = operand80; in2 = operand81; in3 = operand3; out0 = operand319; out1 = operand320; out2 = operand321; size0 = 12288ll; first = 2496u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 2688u) {
    in0 = operand82; in1 = operand83; in2 = operand84; in3 = operand3; out0 = operand322; out1 = operand323; out2 = operand324; size0 = 12288ll; first = 2592u; blocks = 96u;
  } else {
  if (blockIdx.x < 2784u) {
    in0 = operand85; in1 = operand86; in2 = operand87; in3 = operand3; out0 = operand325; out1 = operand326; out2 = operand327; size0 = 12288ll; first = 2688u; blocks = 96u;
  } else {
    in0 = operand88; in1 = operand89; in2 = operand90; in3 = operand3; out0 = operand328; out1 = operand329; out2 = operand330; size0 = 12288ll; first = 2784u; blocks = 96u;
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 3360u) {
  if (blockIdx.x < 3072u) {
  if (blockIdx.x < 2976u) {
    in0 = operand91; in1 = operand92; in2 = operand93; in3 = operand3; out0 = operand331; out1 = operand332; out2 = operand333; size0 = 12288ll; first = 2880u; blocks = 96u;
  } else {
    in0 = operand94; in1 = operand95; in2 = operand96; in3 = operand3; out0 = operand334; out1 = operand335; out2 = operand336; size0 = 12288ll; first = 2976u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 3168u) {
    in0 = operand97; in1 = operand98; in2 = operand99; in3 = operand3; out0 = operand337; out1 = operand338; out2 = operand339; size0 = 12288ll; first = 3072u; blocks = 96u;
  } else {
  if (blockIdx.x < 3264u) {
    in0 = operand100; in1 = operand101; in2 = operand102; in3 = operand3; out0 = operand340; out1 = operand341; out2 = operand342; size0 = 12288ll; first = 3168u; blocks = 96u;
  } else {
    in0 = operand103; in1 = operand104; in2 = operand105; in3 = operand3; out0 = operand343; out1 = operand344; out2 = operand345; size0 = 12288ll; first = 3264u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 3552u) {
  if (blockIdx.x < 3456u) {
    in0 = operand106; in1 = operand107; in2 = operand108; in3 = operand3; out0 = operand346; out1 = operand347; out2 = operand348; size0 = 12288ll; first = 3360u; blocks = 96u;
  } else {
    in0 = operand109; in1 = operand110; in2 = operand111; in3 = operand3; out0 = operand349; out1 = operand350; out2 = operand351; size0 = 12288ll; first = 3456u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 3648u) {
    in0 = operand112; in1 = operand113; in2 = operand114; in3 = operand3; out0 = operand352; out1 = operand353; out2 = operand354; size0 = 12288ll; first = 3552u; blocks = 96u;
  } else {
  if (blockIdx.x < 3744u) {
    in0 = operand115; in1 = operand116; in2 = operand117; in3 = operand3; out0 = operand355; out1 = operand356; out2 = operand357; size0 = 12288ll; first = 3648u; blocks = 96u;
  } else {
    in0 = operand118; in1 = operand119; in2 = operand120; in3 = operand3; out0 = operand358; out1 = operand359; out2 = operand360; size0 = 12288ll; first = 3744u; blocks = 96u;
  }
  }
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 5760u) {
  if (blockIdx.x < 4800u) {
  if (blockIdx.x < 4320u) {
  if (blockIdx.x < 4032u) {
  if (blockIdx.x < 3936u) {
    in0 = operand121; in1 = operand122; in2 = operand123; in3 = operand3; out0 = operand361; out1 = operand362; out2 = operand363; size0 = 12288ll; first = 3840u; blocks = 96u;
  } else {
    in0 = operand124; in1 = operand125; in2 = operand126; in3 = operand3; out0 = operand364; out1 = operand365; out2 = operand366; size0 = 12288ll; first = 3936u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 4128u) {
    in0 = operand127; in1 = operand128; in2 = operand129; in3 = operand3; out0 = operand367; out1 = operand368; out2 = operand369; size0 = 12288ll; first = 4032u; blocks = 96u;
  } else {
  if (blockIdx.x < 4224u) {
    in0 = operand130; in1 = operand131; in2 = operand132; in3 = operand3; out0 = operand370; out1 = operand371; out2 = operand372; size0 = 12288ll; first = 4128u; blocks = 96u;
  } else {
    in0 = operand133; in1 = operand134; in2 = operand135; in3 = operand3; out0 = operand373; out1 = operand374; out2 = operand375; size0 = 12288ll; first = 4224u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 4512u) {
  if (blockIdx.x < 4416u) {
    in0 = operand136; in1 = operand137; in2 = operand138; in3 = operand3; out0 = operand376; out1 = operand377; out2 = operand378; size0 = 12288ll; first = 4320u; blocks = 96u;
  } else {
    in0 = operand139; in1 = operand140; in2 = operand141; in3 = operand3; out0 = operand379; out1 = operand380; out2 = operand381; size0 = 12288ll; first = 4416u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 4608u) {
    in0 = operand142; in1 = operand143; in2 = operand144; in3 = operand3; out0 = operand382; out1 = operand383; out2 = operand384; size0 = 12288ll; first = 4512u; blocks = 96u;
  } else {
  if (blockIdx.x < 4704u) {
    in0 = operand145; in1 = operand146; in2 = operand147; in3 = operand3; out0 = operand385; out1 = operand386; out2 = operand387; size0 = 12288ll; first = 4608u; blocks = 96u;
  } else {
    in0 = operand148; in1 = operand149; in2 = operand150; in3 = operand3; out0 = operand388; out1 = operand389; out2 = operand390; size0 = 12288ll; first = 4704u; blocks = 96u;
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 5280u) {
  if (blockIdx.x < 4992u) {
  if (blockIdx.x < 4896u) {
    in0 = operand151; in1 = operand152; in2 = operand153; in3 = operand3; out0 = operand391; out1 = operand392; out2 = operand393; size0 = 12288ll; first = 4800u; blocks = 96u;
  } else {
    in0 = operand154; in1 = operand155; in2 = operand156; in3 = operand3; out0 = operand394; out1 = operand395; out2 = operand396; size0 = 12288ll; first = 4896u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 5088u) {
    in0 = operand157; in1 = operand158; in2 = operand159; in3 = operand3; out0 = operand397; out1 = operand398; out2 = operand399; size0 = 12288ll; first = 4992u; blocks = 96u;
  } else {
  if (blockIdx.x < 5184u) {
    in0 = operand160; in1 = operand161; in2 = operand162; in3 = operand3; out0 = operand400; out1 = operand401; out2 = operand402; size0 = 12288ll; first = 5088u; blocks = 96u;
  } else {
    in0 = operand163; in1 = operand164; in2 = operand165; in3 = operand3; out0 = operand403; out1 = operand404; out2 = operand405; size0 = 12288ll; first = 5184u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 5472u) {
  if (blockIdx.x < 5376u) {
    in0 = operand166; in1 = operand167; in2 = operand168; in3 = operand3; out0 = operand406; out1 = operand407; out2 = operand408; size0 = 12288ll; first = 5280u; blocks = 96u;
  } else {
    in0 = operand169; in1 = operand170; in2 = operand171; in3 = operand3; out0 = operand409; out1 = operand410; out2 = operand411; size0 = 12288ll; first = 5376u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 5568u) {
    in0 = operand172; in1 = operand173; in2 = operand174; in3 = operand3; out0 = operand412; out1 = operand413; out2 = operand414; size0 = 12288ll; first = 5472u; blocks = 96u;
  } else {
  if (blockIdx.x < 5664u) {
    in0 = operand175; in1 = operand176; in2 = operand177; in3 = operand3; out0 = operand415; out1 = operand416; out2 = operand417; size0 = 12288ll; first = 5568u; blocks = 96u;
  } else {
    in0 = operand178; in1 = operand179; in2 = operand180; in3 = operand3; out0 = operand418; out1 = operand419; out2 = operand420; size0 = 12288ll; first = 5664u; blocks = 96u;
  }
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 6720u) {
  if (blockIdx.x < 6240u) {
  if (blockIdx.x < 5952u) {
  if (blockIdx.x < 5856u) {
    in0 = operand181; in1 = operand182; in2 = operand183; in3 = operand3; out0 = operand421; out1 = operand422; out2 = operand423; size0 = 12288ll; first = 5760u; blocks = 96u;
  } else {
    in0 = operand184; in1 = operand185; in2 = operand186; in3 = operand3; out0 = operand424; out1 = operand425; out2 = operand426; size0 = 12288ll; first = 5856u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 6048u) {
    in0 = operand187; in1 = operand188; in2 = operand189; in3 = operand3; out0 = operand427; out1 = operand428; out2 = operand429; size0 = 12288ll; first = 5952u; blocks = 96u;
  } else {
  if (blockIdx.x < 6144u) {
    in0 = operand190; in1 = operand191; in2 = operand192; in3 = operand3; out0 = operand430; out1 = operand431; out2 = operand432; size0 = 12288ll; first = 6048u; blocks = 96u;
  } else {
    in0 = operand193; in1 = operand194; in2 = operand195; in3 = operand3; out0 = operand433; out1 = operand434; out2 = operand435; size0 = 12288ll; first = 6144u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 6432u) {
  if (blockIdx.x < 6336u) {
    in0 = operand196; in1 = operand197; in2 = operand198; in3 = operand3; out0 = operand436; out1 = operand437; out2 = operand438; size0 = 12288ll; first = 6240u; blocks = 96u;
  } else {
    in0 = operand199; in1 = operand200; in2 = operand201; in3 = operand3; out0 = operand439; out1 = operand440; out2 = operand441; size0 = 12288ll; first = 6336u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 6528u) {
    in0 = operand202; in1 = operand203; in2 = operand204; in3 = operand3; out0 = operand442; out1 = operand443; out2 = operand444; size0 = 12288ll; first = 6432u; blocks = 96u;
  } else {
  if (blockIdx.x < 6624u) {
    in0 = operand205; in1 = operand206; in2 = operand207; in3 = operand3; out0 = operand445; out1 = operand446; out2 = operand447; size0 = 12288ll; first = 6528u; blocks = 96u;
  } else {
    in0 = operand208; in1 = operand209; in2 = operand210; in3 = operand3; out0 = operand448; out1 = operand449; out2 = operand450; size0 = 12288ll; first = 6624u; blocks = 96u;
  }
  }
  }
  }
  } else {
  if (blockIdx.x < 7200u) {
  if (blockIdx.x < 6912u) {
  if (blockIdx.x < 6816u) {
    in0 = operand211; in1 = operand212; in2 = operand213; in3 = operand3; out0 = operand451; out1 = operand452; out2 = operand453; size0 = 12288ll; first = 6720u; blocks = 96u;
  } else {
    in0 = operand214; in1 = operand215; in2 = operand216; in3 = operand3; out0 = operand454; out1 = operand455; out2 = operand456; size0 = 12288ll; first = 6816u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 7008u) {
    in0 = operand217; in1 = operand218; in2 = operand219; in3 = operand3; out0 = operand457; out1 = operand458; out2 = operand459; size0 = 12288ll; first = 6912u; blocks = 96u;
  } else {
  if (blockIdx.x < 7104u) {
    in0 = operand220; in1 = operand221; in2 = operand222; in3 = operand3; out0 = operand460; out1 = operand461; out2 = operand462; size0 = 12288ll; first = 7008u; blocks = 96u;
  } else {
    in0 = operand223; in1 = operand224; in2 = operand225; in3 = operand3; out0 = operand463; out1 = operand464; out2 = operand465; size0 = 12288ll; first = 7104u; blocks = 96u;
  }
  }
  }
  } else {
  if (blockIdx.x < 7392u) {
  if (blockIdx.x < 7296u) {
    in0 = operand226; in1 = operand227; in2 = operand228; in3 = operand3; out0 = operand466; out1 = operand467; out2 = operand468; size0 = 12288ll; first = 7200u; blocks = 96u;
  } else {
    in0 = operand229; in1 = operand230; in2 = operand231; in3 = operand3; out0 = operand469; out1 = operand470; out2 = operand471; size0 = 12288ll; first = 7296u; blocks = 96u;
  }
  } else {
  if (blockIdx.x < 7488u) {
    in0 = operand232; in1 = operand233; in2 = operand234; in3 = operand3; out0 = operand472; out1 = operand473; out2 = operand474; size0 = 12288ll; first = 7392u; blocks = 96u;
  } else {
  if (blockIdx.x < 7584u) {
    in0 = operand235; in1 = operand236; in2 = operand237; in3 = operand3; out0 = operand475; out1 = operand476; out2 = operand477; size0 = 12288ll; first = 7488u; blocks = 96u;
  } else {
    in0 = operand238; in1 = operand239; in2 = operand240; in3 = operand3; out0 = operand478; out1 = operand479; out2 = operand480; size0 = 12288ll; first = 7584u; blocks = 96u;
  }
  }
  }
  }
  }
  }
  }
  const unsigned block = blockIdx.x - first;
  {
  const float s17 = ElementF32::word(in3[0]);
  const float s18 = Exact::mul(s17, 0x1p-1f);
  for (long long base = block * 128ll, count = size0; base < count;
       base += blocks * 128ll) {
    constexpr bool live = true;
    Pack<ElementF32, 1> kept12[1];
    Pack<ElementBF16, 1> kept13[1];
    Pack<ElementF32, 1> kept14[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const long long mine = base + (j * 128 + static_cast<int>(threadIdx.x)) * 1;
      const int n = static_cast<int>(mine < count ? mine : count - 1);
      __builtin_assume(n >= 0);
      {
        kept12[j] = load_pack<ElementF32, 1>(in0 + (n));
        kept13[j] = load_pack<ElementBF16, 1>(in1 + (n));
        kept14[j] = load_pack<ElementF32, 1>(in2 + (n));
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int n = static_cast<int>(base + (j * 128 + static_cast<int>(threadIdx.x)) * 1);
      __builtin_assume(n >= 0);
      if (n < count) {
      float v15[1];
      SINTER_EACH(1) v15[e] = Exact::mul(kept12[j][e], 0x1.8p-1f);
      float v16[1];
      SINTER_EACH(1) v16[e] = Exact::add(v15[e], kept13[j][e]);
      float v19[1];
      SINTER_EACH(1) v19[e] = Exact::mul(v16[e], s18);
      float v20[1];
      SINTER_EACH(1) v20[e] = Exact::sub(kept14[j][e], v19[e]);
      float w21[1];
      SINTER_EACH(1) w21[e] = v20[e];
      if (live) store_pack<ElementBF16, 1>(out2 + (n), w21);
      float w22[1];
      SINTER_EACH(1) w22[e] = v20[e];
      if (live) store_pack<ElementF32, 1>(out1 + (n), w22);
      float w23[1];
      SINTER_EACH(1) w23[e] = v16[e];
      if (live) store_pack<ElementF32, 1>(out0 + (n), w23);
      }
    }
  }
  }
  }
}

}  // namespace sinter
