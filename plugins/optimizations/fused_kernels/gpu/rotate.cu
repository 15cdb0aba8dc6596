// Rotary position embedding (arXiv:2104.09864): a block rotates the query and key heads of one token, and a thread N
// neighbours of both halves of a head. Rotating back is the same with the sines exchanged.
#include "lanes.cuh"

struct Heads {
  const void* in;
  void* out;
  long long heads, in_batch, in_head, in_token, out_batch, out_head, out_token;
};

template <class T, int N>
__global__ void rotate(Heads q, Heads k, const Wide<T>* __restrict__ cos, const Wide<T>* __restrict__ sin, long long table_batch,
                       long long table_token, long long tokens, long long width, int back) {
  using W = Wide<T>;
  const int half = static_cast<int>(width) / 2, packs = half / N;
  const int all = static_cast<int>(q.heads + k.heads) * packs;
  const long long b = blockIdx.x / static_cast<unsigned>(tokens), s = blockIdx.x % static_cast<unsigned>(tokens);
  cos += b * table_batch + s * table_token;
  sin += b * table_batch + s * table_token;
  for (int item = threadIdx.x; item < all; item += blockDim.x) {
    const int column = item % packs * N, number = item / packs;
    const Heads& part = number < q.heads ? q : k;
    const long long head = number < q.heads ? number : number - q.heads;
    const T* __restrict__ in = static_cast<const T*>(part.in) + b * part.in_batch + head * part.in_head + s * part.in_token;
    T* __restrict__ out = static_cast<T*>(part.out) + b * part.out_batch + head * part.out_head + s * part.out_token;
    W first[N], second[N], first_cos[N], second_cos[N], first_sin[N], second_sin[N];
    load(in + column, first);
    load(in + half + column, second);
    load(cos + column, first_cos);
    load(cos + half + column, second_cos);
    load(sin + column, first_sin);
    load(sin + half + column, second_sin);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const W to_first = back ? second_sin[i] : -first_sin[i], to_second = back ? -first_sin[i] : second_sin[i];
      const W rotated = first[i] * first_cos[i] + second[i] * to_first;
      second[i] = second[i] * second_cos[i] + first[i] * to_second;
      first[i] = rotated;
    }
    store(out + column, first);
    store(out + half + column, second);
  }
}
