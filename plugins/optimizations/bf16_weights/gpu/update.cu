// AdamW with master weights (arXiv:1710.03740).
#include "adamw.cuh"

// Lanes: 16 bytes in fp32, so that a warp's loads and stores fill whole sectors.
constexpr int kPieces = 64, kLanes = 4, kRounds = 8;

struct Piece {
  const void* gradient;
  float *master, *first, *second;
  __nv_bfloat16* weight;
  long long count;
  int shard, first_block;
};
using Pieces = PiecesOf<Piece, kPieces>;
/// Of one shard in one step.
struct OfShard {
  Factors factors;
  float largest;  ///< absolute value of the weight
};

/// One thread a piece counts the step, unless it is skipped, and computes the values that all its numbers share.
__global__ void prepare(Pieces all, int* steps, OfShard* shards, const float* lr, const float* skip, double beta1,
                        double beta2, double weight_decay, unsigned long long decayed) {
  const int i = threadIdx.x;
  if (i >= all.count || skipped(skip)) return;
  const int shard = all.pieces[i].shard, step = ++steps[shard];
  shards[shard] = {factors_at(step, *lr, (decayed >> i) & 1 ? weight_decay : 0.0, beta1, beta2), 0.0f};
}

__device__ inline void update_one(float g, float& master, float& first, float& second, const Factors& f, float beta1,
                                  float beta2, float eps) {
  first += (1.0f - beta1) * (g - first);
  second = beta2 * second + (1.0f - beta2) * g * g;
  master = master * f.keep - f.step_size * (first / (sqrtf(second) * f.root + eps));
}

/// G: type of the gradients. Moves whole packs if every address is aligned to 16 bytes, otherwise single numbers. Finds
/// the largest absolute value of the weight.
template <class G, bool writes_weight, bool packed>
__global__ void update(Pieces all, OfShard* shards, const float* skip, float beta1, float beta2, float eps) {
  if (skipped(skip)) return;
  const Piece& p = piece_at(all, static_cast<int>(blockIdx.x));
  const Factors f = shards[p.shard].factors;
  float most = 0;
  const G* gradient = static_cast<const G*>(p.gradient);
  const long long block = static_cast<long long>(blockIdx.x) - p.first_block;
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const long long at = ((block * kRounds + round) * blockDim.x + threadIdx.x) * kLanes;
    if (packed && at + kLanes <= p.count) {
      float g[kLanes], master[kLanes], first[kLanes], second[kLanes];
      load(gradient + at, g);
      load(p.master + at, master);
      load(p.first + at, first);
      load(p.second + at, second);
#pragma unroll
      for (int i = 0; i < kLanes; ++i) update_one(g[i], master[i], first[i], second[i], f, beta1, beta2, eps);
      store(p.first + at, first);
      store(p.second + at, second);
      store(p.master + at, master);
      if constexpr (writes_weight) store(p.weight + at, master);
      most = max(most, largest_of(master));
      continue;
    }
    for (long long i = at; i < p.count && i < at + kLanes; ++i) {
      update_one(widen(gradient[i]), p.master[i], p.first[i], p.second[i], f, beta1, beta2, eps);
      if constexpr (writes_weight) p.weight[i] = narrow<__nv_bfloat16>(p.master[i]);
      most = max(most, max(p.master[i], -p.master[i]));
    }
  }
  if constexpr (writes_weight) raise_to<__nv_bfloat16>(&shards[p.shard].largest, most);
}
