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
    const long long u = live ? mine : units - 1;
    Pack<ElementBF16, 4> kept108[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
        kept108[j] = load_pack<ElementBF16, 4>(in2 + (u * 16 + i));
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
        if (live) hold_pack(dynamic_shared + 2048, (round * 1 + j) * 128 + threadIdx.x, kept108[j]);
      }
    }
    float kept109[1][4];
    Pack<ElementS32, 1> kept106[2];
    Pack<ElementS32, 1> kept107[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
        kept106[j] = load_pack<ElementS32, 1>(in0 + (u * 5 + i));
        kept107[j] = load_pack<ElementS32, 1>(in1 + (u * 5 + i));
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
        if (live) hold_pack(dynamic_shared + 0, (round * 2 + j) * 128 + threadIdx.x, kept106[j]);
        if (live) hold_pack(dynamic_shared + 1024, (round * 2 + j) * 128 + threadIdx.x, kept107[j]);
      }
    }
    float kept110[2][1];
    float segment5[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float w111[4];
      SINTER_EACH(4) w111[e] = kept108[j][e];
      segment5[j] = join_lanes<Largest, 2>(fold<Largest>(w111));
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      int v112[1];
      SINTER_EACH(1) v112[e] = Fast::mul(kept106[j][e], kept107[j][e]);
      int w113[1];
      SINTER_EACH(1) w113[e] = v112[e];
      if (live) store_pack<ElementS32, 1>(out0 + (u * 9 + i), w113);
      }
    }
    group.share();
    float segment9[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float v114[4];
      SINTER_EACH(4) v114[e] = Fast::sub(kept108[j][e], segment5[j]);
      float v115[4];
      SINTER_EACH(4) v115[e] = Fast::exp(v114[e]);
      SINTER_EACH(4) kept109[j][e] = v115[e];
      float w116[4];
      SINTER_EACH(4) w116[e] = v115[e];
      leave_pack<ElementF32, 4>(handed_at<ElementF32>(handed + 0) + (i), w116);
      float w117[4];
      SINTER_EACH(4) w117[e] = v115[e];
      segment9[j] = join_lanes<Sum, 2>(fold<Sum>(w117));
      }
    }
    group.share();
    float row21 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      const auto p118 = load_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i + 3));
      float v121;
      v121 = Sum::empty(float{});
      #pragma unroll 8
      for (int k119 = 0; k119 < 8; ++k119) {
        const float s120 = ElementF32::word(handed_at<ElementF32>(handed + 0)[(k119)]);
        v121 = Sum::join<float>(v121, s120);
      }
      float v122[1];
      SINTER_EACH(1) v122[e] = Fast::div(p118[e], v121);
      SINTER_EACH(1) kept110[j][e] = v122[e];
      int v123[1];
      SINTER_EACH(1) v123[e] = Fast::mul(kept106[j][e], kept107[j][e]);
      float v124[1];
      SINTER_EACH(1) v124[e] = to_f32(v123[e]);
      float v125[1];
      SINTER_EACH(1) v125[e] = Fast::mul(v124[e], 0x1p-8f);
      float v126[1];
      SINTER_EACH(1) v126[e] = Fast::add(v122[e], v125[e]);
      float v127[1];
      SINTER_EACH(1) v127[e] = Fast::mul(v122[e], v126[e]);
      float w128[1];
      SINTER_EACH(1) w128[e] = v127[e];
      row21 = Sum::join<float>(row21, fold<Sum>(w128));
      }
    }
    group.reduce(Partial<Sum, float>{row21});
    row21 *= 0x1.99999ap-3f;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float v129[4];
      SINTER_EACH(4) v129[e] = Fast::div(kept109[j][e], segment9[j]);
      float v130[4];
      SINTER_EACH(4) v130[e] = Fast::add(kept108[j][e], v129[e]);
      if (live) SINTER_EACH(4) column39[j][e] = Sum::join<float>(column39[j][e], v130[e]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      int v131[1];
      SINTER_EACH(1) v131[e] = Fast::mul(kept106[j][e], kept107[j][e]);
      float v132[1];
      SINTER_EACH(1) v132[e] = to_f32(v131[e]);
      float v133[1];
      SINTER_EACH(1) v133[e] = Fast::mul(v132[e], 0x1p-8f);
      float v134[1];
      SINTER_EACH(1) v134[e] = Fast::add(kept110[j][e], v133[e]);
      float v135[1];
      SINTER_EACH(1) v135[e] = Fast::add(kept110[j][e], 0x1p-1f);
      float v136[1];
      SINTER_EACH(1) v136[e] = Fast::sub(v135[e], row21);
      float v137[1];
      SINTER_EACH(1) v137[e] = Fast::mul(v134[e], v136[e]);
      float v138[1];
      SINTER_EACH(1) v138[e] = Fast::add(v137[e], v134[e]);
      float v139[1];
      SINTER_EACH(1) v139[e] = Fast::mul(v138[e], 0x1p-1f);
      float v140[1];
      SINTER_EACH(1) v140[e] = Fast::mul(kept110[j][e], v139[e]);
      if (live) SINTER_EACH(1) column31[j][e] = Sum::join<float>(column31[j][e], v140[e]);
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
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(scratch + 1792), 1.0f / static_cast<float>(units)});
  grid_barrier(barrier);
  }
  {
  unsigned char* const handed = dynamic_shared + 7168 + static_cast<int>(threadIdx.x) / 4 * 64;
  int round = 0;
  for (long long base = blockIdx.x * 32ll; base < units; base += gridDim.x * 32ll, ++round) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 4;
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    Pack<ElementBF16, 4> kept143[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
        kept143[j] = take_pack<ElementBF16, 4>(dynamic_shared + 2048, (round * 1 + j) * 128 + threadIdx.x);
      }
    }
    Pack<ElementS32, 1> kept141[2];
    Pack<ElementS32, 1> kept142[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
        kept141[j] = take_pack<ElementS32, 1>(dynamic_shared + 0, (round * 2 + j) * 128 + threadIdx.x);
        kept142[j] = take_pack<ElementS32, 1>(dynamic_shared + 1024, (round * 2 + j) * 128 + threadIdx.x);
      }
    }
    float kept144[2][1];
    float segment5[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float w145[4];
      SINTER_EACH(4) w145[e] = kept143[j][e];
      segment5[j] = join_lanes<Largest, 2>(fold<Largest>(w145));
      }
    }
    group.share();
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 4;
      {
      float v146[4];
      SINTER_EACH(4) v146[e] = Fast::sub(kept143[j][e], segment5[j]);
      float v147[4];
      SINTER_EACH(4) v147[e] = Fast::exp(v146[e]);
      float w148[4];
      SINTER_EACH(4) w148[e] = v147[e];
      leave_pack<ElementF32, 4>(handed_at<ElementF32>(handed + 0) + (i), w148);
      }
    }
    group.share();
    float row21 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      const auto p149 = load_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i + 3));
      float v152;
      v152 = Sum::empty(float{});
      #pragma unroll 8
      for (int k150 = 0; k150 < 8; ++k150) {
        const float s151 = ElementF32::word(handed_at<ElementF32>(handed + 0)[(k150)]);
        v152 = Sum::join<float>(v152, s151);
      }
      float v153[1];
      SINTER_EACH(1) v153[e] = Fast::div(p149[e], v152);
      SINTER_EACH(1) kept144[j][e] = v153[e];
      int v154[1];
      SINTER_EACH(1) v154[e] = Fast::mul(kept141[j][e], kept142[j][e]);
      float v155[1];
      SINTER_EACH(1) v155[e] = to_f32(v154[e]);
      float v156[1];
      SINTER_EACH(1) v156[e] = Fast::mul(v155[e], 0x1p-8f);
      float v157[1];
      SINTER_EACH(1) v157[e] = Fast::add(v153[e], v156[e]);
      float v158[1];
      SINTER_EACH(1) v158[e] = Fast::mul(v153[e], v157[e]);
      float w159[1];
      SINTER_EACH(1) w159[e] = v158[e];
      row21 = Sum::join<float>(row21, fold<Sum>(w159));
      }
    }
    group.reduce(Partial<Sum, float>{row21});
    row21 *= 0x1.99999ap-3f;
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 5) {
      int v160[1];
      SINTER_EACH(1) v160[e] = Fast::mul(kept141[j][e], kept142[j][e]);
      float v161[1];
      SINTER_EACH(1) v161[e] = to_f32(v160[e]);
      float v162[1];
      SINTER_EACH(1) v162[e] = Fast::mul(v161[e], 0x1p-8f);
      float v163[1];
      SINTER_EACH(1) v163[e] = Fast::add(kept144[j][e], v162[e]);
      float v164[1];
      SINTER_EACH(1) v164[e] = Fast::add(kept144[j][e], 0x1p-1f);
      float v165[1];
      SINTER_EACH(1) v165[e] = Fast::sub(v164[e], row21);
      float v166[1];
      SINTER_EACH(1) v166[e] = Fast::mul(v163[e], v165[e]);
      float v167[1];
      SINTER_EACH(1) v167[e] = Fast::add(v166[e], v163[e]);
      float v168[1];
      SINTER_EACH(1) v168[e] = Fast::mul(v167[e], 0x1p-1f);
      float v169[1];
      SINTER_EACH(1) v169[e] = Fast::add(kept144[j][e], 0x1p-1f);
      const auto p170 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(scratch + 1792) + (i));
      float v171[1];
      SINTER_EACH(1) v171[e] = Fast::sub(v169[e], p170[e]);
      float v172[1];
      SINTER_EACH(1) v172[e] = Fast::mul(v168[e], v171[e]);
      float v173[1];
      SINTER_EACH(1) v173[e] = Fast::mul(v172[e], 0x1p-2f);
      float w174[1];
      SINTER_EACH(1) w174[e] = v173[e];
      if (live) store_pack<ElementF16, 1>(out1 + (u * 5 + i), w174);
      }
    }
  }
  for (long long base = blockIdx.x * 128ll, count = 16ll; base < count;
       base += gridDim.x * 128ll) {
    constexpr bool live = true;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const long long n = base + (j * 32 + static_cast<int>(threadIdx.x) / 4) * 4;
      if (n < count) {
      const auto p175 = load_pack<ElementF32, 4>(reinterpret_cast<const float*>(scratch + 1024) + (n));
      float v176[4];
      SINTER_EACH(4) v176[e] = Fast::mul(p175[e], 0x1p-7f);
      float v180;
      v180 = Sum::empty(float{});
      #pragma unroll 2
      for (int k177t = 0; k177t < 2; ++k177t) {
        const int k177 = k177t * 4 + static_cast<int>(threadIdx.x) % 4;
        const float s178 = __ldcg(reinterpret_cast<const float*>(scratch + 1024) + (((n) / 8) * 8 + k177));
        const float s179 = Fast::mul(s178, 0x1p-7f);
        v180 = Sum::join<float>(v180, s179);
      }
      v180 = join_lanes<Sum, 4>(v180);
      v180 *= 0x1p-3f;
      float v181[4];
      SINTER_EACH(4) v181[e] = Fast::sub(v176[e], v180);
      float v187;
      v187 = Sum::empty(float{});
      #pragma unroll 2
      for (int k182t = 0; k182t < 2; ++k182t) {
        const int k182 = k182t * 4 + static_cast<int>(threadIdx.x) % 4;
        const float s183 = __ldcg(reinterpret_cast<const float*>(scratch + 1024) + (((n) / 8) * 8 + k182));
        const float s184 = Fast::mul(s183, 0x1p-7f);
        const float s185 = Fast::sub(s184, v180);
        const float s186 = Fast::square(s185);
        v187 = Sum::join<float>(v187, s186);
      }
      v187 = join_lanes<Sum, 4>(v187);
      v187 *= 0x1p-3f;
      const float s188 = Fast::add(v187, 0x1p-4f);
      const float s189 = Fast::rsqrt(s188);
      float v190[4];
      SINTER_EACH(4) v190[e] = Fast::mul(v181[e], s189);
      float v191[4];
      SINTER_EACH(4) v191[e] = Fast::mul(v176[e], 0x1p-1f);
      float v192[4];
      SINTER_EACH(4) v192[e] = Fast::add(v190[e], v191[e]);
      float v193[4];
      SINTER_EACH(4) v193[e] = Fast::mul(v192[e], 0x1p-4f);
      float w194[4];
      SINTER_EACH(4) w194[e] = v193[e];
      if (live && static_cast<int>(threadIdx.x) % 4 == 0) SINTER_EACH(4) out2[((((n + e)) / 8) * 13 + (((n + e)) % 8))] = ElementBF16::stored(w194[e]);
      }
    }
  }
  }
}

}  // namespace sinter
