// Results that are only factors of products in 8 bits, written in 8 bits with a known scale. Needs lanes.cuh,
// to_8_bits.cuh and turned_tile.cuh.

/// A matrix (rows, columns). Its parts of earlier largest values give the scale. `seen` is raised to the largest values
/// of this matrix. The rows of `values` are all_columns apart; `transposed` is (columns, rows).
struct Rounded {
  const float* past;
  float* seen;
  unsigned char *values, *transposed;
  float* scale;
  long long past_count, rows, columns, all_columns;
};

/// Rounds to T, as a kernel does that writes T. Returns the largest absolute value.
template <class T, int N>
__device__ inline float round_to(float (&some)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) some[i] = widen(narrow<T>(some[i]));
  return largest_of(some);
}

/// Returns the largest absolute value, as T.
template <class T, int mantissa, int height, bool turns, int N>
__device__ inline float put_rounded(float (&some)[N], float factor, unsigned char* __restrict__ values,
                                    const Spot<height, turns>& spot, int tile = 0) {
  const float largest = round_to<T>(some);
  put_8_bits<mantissa>(some, factor, 1, values, spot, tile);
  return largest;
}
