// AdamW with moments in 8 bits (arXiv:2110.02861). A warp has a block of 256 numbers at a time: it decodes both moments,
// updates them, finds their largest magnitudes and encodes them again.
#include "adamw.cuh"

constexpr int kPieces = 48, kWarps = 8, kRounds = 4, kLanes = 8, kBlock = 32 * kLanes;
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
struct Bucket {
  float border;
  int low;
};
struct Code {
  float values[256];
  Bucket buckets[kBuckets];
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
  const Bucket found = code.buckets[bucket];
  return found.low + (magnitude > found.border ? 1 : 0);
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

/// G: type of the gradients, W: of the data. Moves whole packs if every address is aligned to one, otherwise single
/// numbers.
template <class G, class W, bool packed>
__global__ void update(Pieces all, const Factors* factors, const float* skip, const Tables* tables, float beta1, float beta2,
                       float eps, const float* steps, unsigned seed) {
  if (skipped(skip)) return;
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
    const long long block = start + round * kWarps + warp, at = block * kBlock + lane * kLanes;
    const bool any = block * kBlock < p.count, whole = packed && at + kLanes <= p.count;
    float g[kLanes], data[kLanes], first[kLanes], second[kLanes];
    alignas(8) unsigned char first_codes[kLanes], second_codes[kLanes];
    if (whole) {
      load(gradient + at, g);
      load(weights + at, data);
      *reinterpret_cast<uint2*>(first_codes) = *reinterpret_cast<const uint2*>(p.first + at);
      *reinterpret_cast<uint2*>(second_codes) = *reinterpret_cast<const uint2*>(p.second + at);
    } else {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) {
        const bool there = at + i < p.count;
        g[i] = there ? widen(gradient[at + i]) : 0.0f;
        data[i] = there ? widen(weights[at + i]) : 0.0f;
        first_codes[i] = there ? p.first[at + i] : 127;
        second_codes[i] = there ? p.second[at + i] : 0;
      }
    }
    const float first_scale = any ? p.first_scales[block] : 0.0f, second_scale = any ? p.second_scales[block] : 0.0f;
    const unsigned block_seed = mixed(shard_seed + 0x9E3779B9u * static_cast<unsigned>(block)) + lane * kLanes;
    float first_most = 0, second_most = 0;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      first[i] = tables->first.values[first_codes[i]] * first_scale;
      second[i] = tables->second.values[second_codes[i]] * second_scale;
      first[i] += (1.0f - beta1) * (g[i] - first[i]);
      second[i] = beta2 * second[i] + (1.0f - beta2) * g[i] * g[i];
      data[i] = data[i] * f.keep - f.step_size * (first[i] / (sqrtf(second[i]) * f.root + eps));
      data[i] = stochastically_rounded<W>(data[i], block_seed + i);
      first_most = larger(first_most, fabsf(first[i]));
      second_most = larger(second_most, fabsf(second[i]));
    }
    first_most = warp_max(first_most), second_most = warp_max(second_most);
    const float first_inverse = first_most > 0 ? 1.0f / first_most : 0.0f,
                second_inverse = second_most > 0 ? 1.0f / second_most : 0.0f;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      first_codes[i] = with_sign(tables->first, first[i] * first_inverse);
      second_codes[i] = without_sign(tables->second, second[i] * second_inverse);
    }
    if (any && lane == 0) p.first_scales[block] = first_most, p.second_scales[block] = second_most;
    if (whole) {
      store(weights + at, data);
      *reinterpret_cast<uint2*>(p.first + at) = *reinterpret_cast<const uint2*>(first_codes);
      *reinterpret_cast<uint2*>(p.second + at) = *reinterpret_cast<const uint2*>(second_codes);
    } else {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) {
        if (at + i >= p.count) break;
        weights[at + i] = narrow<W>(data[i]);
        p.first[at + i] = first_codes[i];
        p.second[at + i] = second_codes[i];
      }
    }
  }
}
