// AdamW with moments in 8 bits (arXiv:2110.02861). A warp has a block of 256 numbers at a time: it decodes both moments,
// updates them, finds their largest magnitudes and encodes them again.
#include "adamw.cuh"

constexpr int kPieces = 48, kWarps = 8, kRounds = 8, kLanes = 8, kBlock = 32 * kLanes;
// Neighbours of a lane: 16 bytes in fp32, so that a warp's loads and stores fill whole sectors.
constexpr int kPack = 4, kPacks = kLanes / kPack;
// The same as in code.h.
constexpr int kFirstBucket = (127 - 23) << 7, kBuckets = (127 << 7) + 1 - kFirstBucket;

struct Piece {
  const void* gradient;
  void* data;
  unsigned char *first, *second;
  float *first_scales, *second_scales;
  long long count;
  int shard, first_block;
};
using Pieces = PiecesOf<Piece, kPieces>;
/// A bucket as in code.h, in a byte: its border is the one above the rank `low`.
struct alignas(16) Code {
  float values[256], borders[256];
  unsigned char lows[(kBuckets + 15) / 16 * 16];
};
struct Tables {
  Code first, second;
};

/// One thread a piece computes the values that all its numbers share.
__global__ void prepare(Pieces all, const float* steps, Factors* factors, const float* lr, const float* skip, double beta1,
                        double beta2, double weight_decay, unsigned long long decayed) {
  const int i = threadIdx.x;
  if (i >= all.count || skipped(skip)) return;
  const int shard = all.pieces[i].shard;
  const double step = steps[shard];
  factors[shard] = factors_at(step, *lr, (decayed >> i) & 1 ? weight_decay : 0.0, beta1, beta2);
}

__device__ inline int rank_of(const Code& code, float magnitude) {
  const int bucket = min(max((__float_as_int(magnitude) >> 16) - kFirstBucket, 0), kBuckets - 1);
  const int low = code.lows[bucket];
  return low + (magnitude > code.borders[low] ? 1 : 0);
}

/// -1 is missing: 128 numbers above 0, and 127 below.
__device__ inline unsigned char with_sign(const Code& code, float value) {
  const int rank = rank_of(code, fabsf(value));
  return static_cast<unsigned char>(127 + (value < 0 ? -min(rank, 127) : rank));
}
/// A nonzero number stays above 0, because the update divides by its root.
__device__ inline unsigned char without_sign(const Code& code, float value) {
  return static_cast<unsigned char>(max(rank_of(code, value), value > 0 ? 1 : 0));
}

/// The largest of two magnitudes, or a NaN: fmaxf drops it, a maximum of their bits does not.
__device__ inline float larger(float a, float b) { return __int_as_float(max(__float_as_int(a), __float_as_int(b))); }

__device__ inline float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = larger(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

/// The same as in pieces.h.
__device__ inline unsigned mixed(unsigned bits) {
  bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
  return bits ^ (bits >> 16);
}

/// The value for memory. For bf16 it is rounded up with the probability of its distance from the lower neighbour.
template <class W>
__device__ inline float stochastically_rounded(float value, unsigned) {
  return value;
}
template <>
__device__ inline float stochastically_rounded<__nv_bfloat16>(float value, unsigned random) {
  if (value != value) return value;  // a NaN stays one
  return __int_as_float(static_cast<int>((static_cast<unsigned>(__float_as_int(value)) + (mixed(random) & 0xFFFFu)) & 0xFFFF0000u));
}

/// The place in a block of a lane's i-th number.
__device__ inline int place_of(int i, int lane) { return (i / kPack * 32 + lane) * kPack + i % kPack; }

/// G: type of the gradients, W: of the data. Moves whole packs if every address is aligned to one, otherwise single
/// numbers. With packs a thread has registers for three blocks on a multiprocessor; single numbers would spill them.
template <class G, class W, bool packed>
__global__ void __launch_bounds__(kWarps * 32, packed ? 3 : 2)
    update(Pieces all, const Factors* factors, const float* skip, const Tables* tables, float beta1, float beta2, float eps,
           const float* steps, unsigned seed) {
  if (skipped(skip)) return;
  // Lanes look up different numbers: in shared memory about 3 wavefronts a request, in a cache about 17 lines.
  __shared__ Tables codes;
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(sizeof(Tables) / sizeof(uint4)); i += kWarps * 32)
    reinterpret_cast<uint4*>(&codes)[i] = reinterpret_cast<const uint4*>(tables)[i];
  __syncthreads();
  const Piece& p = piece_at(all, static_cast<int>(blockIdx.x));
  const Factors f = factors[p.shard];
  const G* gradient = static_cast<const G*>(p.gradient);
  W* weights = static_cast<W*>(p.data);
  const unsigned shard_seed = mixed(mixed(seed + 0x9E3779B9u * static_cast<unsigned>(p.shard)) +
                                 0x85EBCA77u * static_cast<unsigned>(steps[p.shard]));
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const long long start = (static_cast<long long>(blockIdx.x) - p.first_block) * kWarps * kRounds;
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const long long block = start + round * kWarps + warp, begin = block * kBlock;
    const bool any = begin < p.count, whole = packed && begin + kBlock <= p.count;
    float g[kPacks][kPack], data[kPacks][kPack], first[kLanes], second[kLanes];
    alignas(4) unsigned char first_codes[kLanes], second_codes[kLanes];
    if (whole) {
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        const long long at = begin + place_of(pack * kPack, lane);
        load(gradient + at, g[pack]);
        load(weights + at, data[pack]);
        *reinterpret_cast<unsigned*>(first_codes + pack * kPack) = *reinterpret_cast<const unsigned*>(p.first + at);
        *reinterpret_cast<unsigned*>(second_codes + pack * kPack) = *reinterpret_cast<const unsigned*>(p.second + at);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) {
        const long long at = begin + place_of(i, lane);
        const bool there = at < p.count;
        g[i / kPack][i % kPack] = there ? widen(gradient[at]) : 0.0f;
        data[i / kPack][i % kPack] = there ? widen(weights[at]) : 0.0f;
        first_codes[i] = there ? p.first[at] : 127;
        second_codes[i] = there ? p.second[at] : 0;
      }
    }
    const float first_scale = any ? p.first_scales[block] : 0.0f, second_scale = any ? p.second_scales[block] : 0.0f;
    const unsigned block_seed = mixed(shard_seed + 0x9E3779B9u * static_cast<unsigned>(block));
    float first_most = 0, second_most = 0;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      const float of_gradient = g[i / kPack][i % kPack];
      float& number = data[i / kPack][i % kPack];
      first[i] = codes.first.values[first_codes[i]] * first_scale;
      second[i] = codes.second.values[second_codes[i]] * second_scale;
      first[i] += (1.0f - beta1) * (of_gradient - first[i]);
      second[i] = beta2 * second[i] + (1.0f - beta2) * of_gradient * of_gradient;
      number = number * f.keep - f.step_size * (first[i] / (sqrtf(second[i]) * f.root + eps));
      number = stochastically_rounded<W>(number, block_seed + static_cast<unsigned>(place_of(i, lane)));
      first_most = larger(first_most, fabsf(first[i]));
      second_most = larger(second_most, fabsf(second[i]));
    }
    first_most = warp_max(first_most), second_most = warp_max(second_most);
    const float first_inverse = first_most > 0 ? 1.0f / first_most : 0.0f,
                second_inverse = second_most > 0 ? 1.0f / second_most : 0.0f;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      first_codes[i] = with_sign(codes.first, first[i] * first_inverse);
      second_codes[i] = without_sign(codes.second, second[i] * second_inverse);
    }
    if (any && lane == 0) p.first_scales[block] = first_most, p.second_scales[block] = second_most;
    if (whole) {
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        const long long at = begin + place_of(pack * kPack, lane);
        store(weights + at, data[pack]);
        *reinterpret_cast<unsigned*>(p.first + at) = *reinterpret_cast<const unsigned*>(first_codes + pack * kPack);
        *reinterpret_cast<unsigned*>(p.second + at) = *reinterpret_cast<const unsigned*>(second_codes + pack * kPack);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) {
        const long long at = begin + place_of(i, lane);
        if (at >= p.count) break;
        weights[at] = narrow<W>(data[i / kPack][i % kPack]);
        p.first[at] = first_codes[i];
        p.second[at] = second_codes[i];
      }
    }
  }
}
