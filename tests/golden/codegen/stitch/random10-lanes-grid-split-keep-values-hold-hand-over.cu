// block 128 unit 4 vec 4 split 4 keep+values hold 5120 handed 8 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 1)
sinter_stitch(const int* __restrict__ in0,
    const int* __restrict__ in1,
    const u16* __restrict__ in2,
    int* __restrict__ out0,
    u16* __restrict__ out1,
    u16* __restrict__ out2,
    unsigned char* scratch,
    u32* barrier,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 4, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 5120));
  unsigned char* const shared_columns = dynamic_shared + 5120 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const long long units = 486ll;
  {
  float column39[1][4];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(4) column39[j][e] = Sum::empty(float{});
  float column31[2][1];
  #pragma unroll
  for (int j = 0; j < 2; ++j)
    SINTER_EACH(1) column31[j][e] = Sum::empty(float{});
  unsigned char* const handed = dynamic_shared + 7168 + static_cast<int>(threadIdx.x) / 4 * 64;
  int round = 0;
  for (long long base = blockIdx.x * 32ll; base < units; base += gridDim.x * 32ll, ++round) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 4;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementBF16, 4> kept109[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
        kept109[j] = load_pack<ElementBF16, 4>(in2 + (u * 16 + i));
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
        if (live) hold_pack(dynamic_shared + 2048, (round * 1 + j) * 128 + threadIdx.x, kept109[j]);
      }
    }
    float kept110[1][4];
    Pack<ElementS32, 1> kept107[2];
    Pack<ElementS32, 1> kept108[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
        kept107[j] = load_pack<ElementS32, 1>(in0 + (u * 5 + i));
        kept108[j] = load_pack<ElementS32, 1>(in1 + (u * 5 + i));
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
        if (live) hold_pack(dynamic_shared + 0, (round * 2 + j) * 128 + threadIdx.x, kept107[j]);
        if (live) hold_pack(dynamic_shared + 1024, (round * 2 + j) * 128 + threadIdx.x, kept108[j]);
      }
    }
    float kept111[2][1];
    float segment5[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float w112[4];
      SINTER_EACH(4) w112[e] = kept109[j][e];
      segment5[j] = join_lanes<Largest, 2>(fold<Largest>(w112));
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      int v113[1];
      SINTER_EACH(1) v113[e] = Exact::mul(kept107[j][e], kept108[j][e]);
      int w114[1];
      SINTER_EACH(1) w114[e] = v113[e];
      if (live) store_pack<ElementS32, 1>(out0 + (u * 9 + i), w114);
      }
    }
    group.share();
    float segment9[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float v115[4];
      SINTER_EACH(4) v115[e] = Exact::sub(kept109[j][e], segment5[j]);
      float v116[4];
      SINTER_EACH(4) v116[e] = Exact::exp(v115[e]);
      SINTER_EACH(4) kept110[j][e] = v116[e];
      float w117[4];
      SINTER_EACH(4) w117[e] = v116[e];
      leave_pack<ElementF32, 4>(handed_at<ElementF32>(handed + 0) + (i), w117);
      float w118[4];
      SINTER_EACH(4) w118[e] = v116[e];
      segment9[j] = join_lanes<Sum, 2>(fold<Sum>(w118));
      }
    }
    group.share();
    float row21 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      const auto p119 = load_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i + 3));
      float v122;
      v122 = Sum::empty(float{});
      #pragma unroll 8
      for (int k120 = 0; k120 < 8; ++k120) {
        const float s121 = ElementF32::word(handed_at<ElementF32>(handed + 0)[(k120)]);
        v122 = Sum::join<float>(v122, s121);
      }
      float v123[1];
      SINTER_EACH(1) v123[e] = Exact::div(p119[e], v122);
      SINTER_EACH(1) kept111[j][e] = v123[e];
      int v124[1];
      SINTER_EACH(1) v124[e] = Exact::mul(kept107[j][e], kept108[j][e]);
      float v125[1];
      SINTER_EACH(1) v125[e] = to_f32(v124[e]);
      float v126[1];
      SINTER_EACH(1) v126[e] = Exact::mul(v125[e], 0x1p-8f);
      float v127[1];
      SINTER_EACH(1) v127[e] = Exact::add(v123[e], v126[e]);
      float v128[1];
      SINTER_EACH(1) v128[e] = Exact::mul(v123[e], v127[e]);
      float w129[1];
      SINTER_EACH(1) w129[e] = v128[e];
      row21 = add_shares(row21, w129, 0x1p-3f);
      }
    }
    group.reduce(Partial<Sum, float>{row21});
    row21 *= 0x1.99999ap+0f;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float v130[4];
      SINTER_EACH(4) v130[e] = Exact::div(kept110[j][e], segment9[j]);
      float v131[4];
      SINTER_EACH(4) v131[e] = Exact::add(kept109[j][e], v130[e]);
      if (live) SINTER_EACH(4) column39[j][e] = Sum::join<float>(column39[j][e], v131[e]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      int v132[1];
      SINTER_EACH(1) v132[e] = Exact::mul(kept107[j][e], kept108[j][e]);
      float v133[1];
      SINTER_EACH(1) v133[e] = to_f32(v132[e]);
      float v134[1];
      SINTER_EACH(1) v134[e] = Exact::mul(v133[e], 0x1p-8f);
      float v135[1];
      SINTER_EACH(1) v135[e] = Exact::add(kept111[j][e], v134[e]);
      float v136[1];
      SINTER_EACH(1) v136[e] = Exact::add(kept111[j][e], 0x1p-1f);
      float v137[1];
      SINTER_EACH(1) v137[e] = Exact::sub(v136[e], row21);
      float v138[1];
      SINTER_EACH(1) v138[e] = Exact::mul(v135[e], v137[e]);
      float v139[1];
      SINTER_EACH(1) v139[e] = Exact::add(v138[e], v135[e]);
      float v140[1];
      SINTER_EACH(1) v140[e] = Exact::mul(v139[e], 0x1p-1f);
      float v141[1];
      SINTER_EACH(1) v141[e] = Exact::mul(kept111[j][e], v140[e]);
      const float s142 = mean_share(units);
      if (live) SINTER_EACH(1) column31[j][e] = fmaf(v141[e], s142, column31[j][e]);
      }
    }
  }
  leave_columns<Sum, float, 128, 4, 1, 1, 4, 16>(column39,
      reinterpret_cast<float*>(shared_columns), own_part<float, 1, 16>(scratch + 0));
  leave_columns<Sum, float, 128, 4, 1, 2, 1, 5>(column31,
      reinterpret_cast<float*>(shared_columns), own_part<float, 1, 5>(scratch + 1280));
  grid_barrier(barrier);
  join_columns<Sum, float, 128, 1, 16>(reinterpret_cast<const float*>(scratch + 0),
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(scratch + 1024), 1});
  join_columns<Sum, float, 128, 1, 5>(reinterpret_cast<const float*>(scratch + 1280),
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(scratch + 1792), mean_rest(units)});
  grid_barrier(barrier);
  }
  {
  unsigned char* const handed = dynamic_shared + 7168 + static_cast<int>(threadIdx.x) / 4 * 64;
  int round = 0;
  for (long long base = blockIdx.x * 32ll; base < units; base += gridDim.x * 32ll, ++round) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 4;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementBF16, 4> kept145[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
        kept145[j] = take_pack<ElementBF16, 4>(dynamic_shared + 2048, (round * 1 + j) * 128 + threadIdx.x);
      }
    }
    Pack<ElementS32, 1> kept143[2];
    Pack<ElementS32, 1> kept144[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
        kept143[j] = take_pack<ElementS32, 1>(dynamic_shared + 0, (round * 2 + j) * 128 + threadIdx.x);
        kept144[j] = take_pack<ElementS32, 1>(dynamic_shared + 1024, (round * 2 + j) * 128 + threadIdx.x);
      }
    }
    float kept146[2][1];
    float segment5[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float w147[4];
      SINTER_EACH(4) w147[e] = kept145[j][e];
      segment5[j] = join_lanes<Largest, 2>(fold<Largest>(w147));
      }
    }
    group.share();
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float v148[4];
      SINTER_EACH(4) v148[e] = Exact::sub(kept145[j][e], segment5[j]);
      float v149[4];
      SINTER_EACH(4) v149[e] = Exact::exp(v148[e]);
      float w150[4];
      SINTER_EACH(4) w150[e] = v149[e];
      leave_pack<ElementF32, 4>(handed_at<ElementF32>(handed + 0) + (i), w150);
      }
    }
    group.share();
    float row21 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      const auto p151 = load_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i + 3));
      float v154;
      v154 = Sum::empty(float{});
      #pragma unroll 8
      for (int k152 = 0; k152 < 8; ++k152) {
        const float s153 = ElementF32::word(handed_at<ElementF32>(handed + 0)[(k152)]);
        v154 = Sum::join<float>(v154, s153);
      }
      float v155[1];
      SINTER_EACH(1) v155[e] = Exact::div(p151[e], v154);
      SINTER_EACH(1) kept146[j][e] = v155[e];
      int v156[1];
      SINTER_EACH(1) v156[e] = Exact::mul(kept143[j][e], kept144[j][e]);
      float v157[1];
      SINTER_EACH(1) v157[e] = to_f32(v156[e]);
      float v158[1];
      SINTER_EACH(1) v158[e] = Exact::mul(v157[e], 0x1p-8f);
      float v159[1];
      SINTER_EACH(1) v159[e] = Exact::add(v155[e], v158[e]);
      float v160[1];
      SINTER_EACH(1) v160[e] = Exact::mul(v155[e], v159[e]);
      float w161[1];
      SINTER_EACH(1) w161[e] = v160[e];
      row21 = add_shares(row21, w161, 0x1p-3f);
      }
    }
    group.reduce(Partial<Sum, float>{row21});
    row21 *= 0x1.99999ap+0f;
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      int v162[1];
      SINTER_EACH(1) v162[e] = Exact::mul(kept143[j][e], kept144[j][e]);
      float v163[1];
      SINTER_EACH(1) v163[e] = to_f32(v162[e]);
      float v164[1];
      SINTER_EACH(1) v164[e] = Exact::mul(v163[e], 0x1p-8f);
      float v165[1];
      SINTER_EACH(1) v165[e] = Exact::add(kept146[j][e], v164[e]);
      float v166[1];
      SINTER_EACH(1) v166[e] = Exact::add(kept146[j][e], 0x1p-1f);
      float v167[1];
      SINTER_EACH(1) v167[e] = Exact::sub(v166[e], row21);
      float v168[1];
      SINTER_EACH(1) v168[e] = Exact::mul(v165[e], v167[e]);
      float v169[1];
      SINTER_EACH(1) v169[e] = Exact::add(v168[e], v165[e]);
      float v170[1];
      SINTER_EACH(1) v170[e] = Exact::mul(v169[e], 0x1p-1f);
      float v171[1];
      SINTER_EACH(1) v171[e] = Exact::add(kept146[j][e], 0x1p-1f);
      const auto p172 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(scratch + 1792) + (i));
      float v173[1];
      SINTER_EACH(1) v173[e] = Fast::sub(v171[e], p172[e]);
      float v174[1];
      SINTER_EACH(1) v174[e] = Fast::mul(v170[e], v173[e]);
      float v175[1];
      SINTER_EACH(1) v175[e] = Fast::mul(v174[e], 0x1p-2f);
      float w176[1];
      SINTER_EACH(1) w176[e] = v175[e];
      if (live) store_pack<ElementF16, 1>(out1 + (u * 5 + i), w176);
      }
    }
  }
  for (long long base = blockIdx.x * 128ll, count = 16ll; base < count;
       base += gridDim.x * 128ll) {
    constexpr bool live = true;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int n = static_cast<int>(base + (j * 32 + static_cast<int>(threadIdx.x) / 4) * 4);
      __builtin_assume(n >= 0);
      if (n < count) {
      const auto p177 = load_pack<ElementF32, 4>(reinterpret_cast<const float*>(scratch + 1024) + (n));
      float v178[4];
      SINTER_EACH(4) v178[e] = Exact::mul(p177[e], 0x1p-7f);
      float v182;
      v182 = Sum::empty(float{});
      #pragma unroll 2
      for (int k179t = 0; k179t < 2; ++k179t) {
        const int k179 = k179t * 4 + static_cast<int>(threadIdx.x) % 4;
        const float s180 = __ldcg(reinterpret_cast<const float*>(scratch + 1024) + (((n) / 8) * 8 + k179));
        const float s181 = Exact::mul(s180, 0x1p-7f);
        v182 = fmaf(s181, 0x1p-3f, v182);
      }
      v182 = join_lanes<Sum, 4>(v182);
      float v183[4];
      SINTER_EACH(4) v183[e] = Exact::sub(v178[e], v182);
      float v189;
      v189 = Sum::empty(float{});
      #pragma unroll 2
      for (int k184t = 0; k184t < 2; ++k184t) {
        const int k184 = k184t * 4 + static_cast<int>(threadIdx.x) % 4;
        const float s185 = __ldcg(reinterpret_cast<const float*>(scratch + 1024) + (((n) / 8) * 8 + k184));
        const float s186 = Exact::mul(s185, 0x1p-7f);
        const float s187 = Exact::sub(s186, v182);
        const float s188 = Exact::square(s187);
        v189 = fmaf(s188, 0x1p-3f, v189);
      }
      v189 = join_lanes<Sum, 4>(v189);
      const float s190 = Exact::add(v189, 0x1p-4f);
      const float s191 = Exact::rsqrt(s190);
      float v192[4];
      SINTER_EACH(4) v192[e] = Exact::mul(v183[e], s191);
      float v193[4];
      SINTER_EACH(4) v193[e] = Exact::mul(v178[e], 0x1p-1f);
      float v194[4];
      SINTER_EACH(4) v194[e] = Fast::add(v192[e], v193[e]);
      float v195[4];
      SINTER_EACH(4) v195[e] = Fast::mul(v194[e], 0x1p-4f);
      float w196[4];
      SINTER_EACH(4) w196[e] = v195[e];
      if (live && static_cast<int>(threadIdx.x) % 4 == 0) SINTER_EACH(4) out2[((((n + e)) / 8) * 13 + (((n + e)) % 8))] = ElementBF16::stored(w196[e]);
      }
    }
  }
  }
}

}  // namespace sinter
