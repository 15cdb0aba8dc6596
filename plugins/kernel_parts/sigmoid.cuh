// The sigmoid of one number.
__device__ inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/// Two instructions of the special-function unit instead of about thirty. The exponential is off by at most 2 + 1.2 |x|
/// units in the last place, the quotient by 2, so the sigmoid by 1e-6 of itself for |x| < 10, by 7e-6 where it is
/// 1e-38; below that it is 0.
__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
