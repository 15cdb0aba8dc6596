#include "descriptors.h"

#include <algorithm>

#include "optrush/error.h"

namespace optrush::cublaslt_matmul {
namespace {
void check_made(Status status, const char* what) {
  if (status != kSuccess)
    throw Error(ErrorCode::internal,
                "cuBLASLt refuses " + std::string(what) + ": status " + std::to_string(status));
}

int cuda_type_of(at::ScalarType type) {
  return type == at::kFloat ? kFp32 : type == at::kHalf ? kFp16 : kBf16;
}

Owned new_product(const CublasLt& lt, const Shape& shape) {
  void* made = nullptr;
  check_made(lt.create_product(&made, shape.tf32 ? kSumsOfTf32 : kSumsInFp32, kFp32), "a product");
  Owned product(made, lt.destroy_product);
  const int32_t a = shape.a_transposed ? 1 : 0, b = shape.b_transposed ? 1 : 0;  // cublasOperation_t
  check_made(lt.set_product(made, kTransposesA, &a, sizeof a), "a transposed matrix");
  check_made(lt.set_product(made, kTransposesB, &b, sizeof b), "a transposed matrix");
  return product;
}

Owned new_layout(const CublasLt& lt, at::ScalarType type, int64_t rows, int64_t columns, bool transposed,
                 int64_t leading) {
  if (transposed) std::swap(rows, columns);
  void* made = nullptr;
  check_made(lt.create_layout(&made, cuda_type_of(type), static_cast<uint64_t>(rows),
                              static_cast<uint64_t>(columns), leading),
             "a matrix");
  return {made, lt.destroy_layout};
}

Owned new_preference(const CublasLt& lt, const Shape& shape, size_t workspace) {
  void* made = nullptr;
  check_made(lt.create_preference(&made), "a preference");
  Owned preference(made, lt.destroy_preference);
  const auto set = [&](int attribute, const auto& value) {
    check_made(lt.set_preference(made, attribute, &value, sizeof value), "a preference");
  };
  set(kMostWorkspace, static_cast<uint64_t>(workspace));
  set(kReductionSchemes, kAddsPartsInFp32);
  set(kAlignmentOfA, static_cast<uint32_t>(shape.a_aligned));
  set(kAlignmentOfB, static_cast<uint32_t>(shape.b_aligned));
  set(kAlignmentOfC, static_cast<uint32_t>(shape.c_aligned));
  set(kAlignmentOfD, static_cast<uint32_t>(shape.d_aligned));
  return preference;
}
}  // namespace

Descriptors::Descriptors(const CublasLt& lt, const Shape& shape)
    : lt_(lt),
      shape_(shape),
      product_(new_product(lt, shape)),
      a_(new_layout(lt, shape.type, shape.m, shape.k, shape.a_transposed, shape.a_leading)),
      b_(new_layout(lt, shape.type, shape.k, shape.n, shape.b_transposed, shape.b_leading)),
      c_(new_layout(lt, shape.result, shape.m, shape.n, false, shape.c_leading)),
      d_(new_layout(lt, shape.result, shape.m, shape.n, false, shape.d_leading)) {}

std::vector<Candidate> Descriptors::candidates(void* handle, int count, size_t workspace) const {
  const Owned preference = new_preference(lt_, shape_, workspace);
  std::vector<Candidate> found(static_cast<size_t>(count));
  int number = 0;
  const Status status = lt_.candidates(handle, product_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
                                       preference.get(), count, found.data(), &number);
  found.resize(status == kSuccess ? static_cast<size_t>(number) : 0);
  std::erase_if(found, [](const Candidate& each) { return each.state != kSuccess; });
  return found;
}

bool Descriptors::accepts(void* handle, const Algorithm& algorithm, size_t workspace) const {
  Candidate checked;
  const Status status =
      lt_.check(handle, product_.get(), a_.get(), b_.get(), c_.get(), d_.get(), &algorithm, &checked);
  return status == kSuccess && checked.state == kSuccess && checked.workspace <= workspace;
}

Status Descriptors::multiply(void* handle, const Product& product, float alpha, float beta,
                             const Algorithm& algorithm, void* workspace, size_t workspace_bytes,
                             void* stream) const {
  return lt_.multiply(handle, product_.get(), &alpha, product.a, a_.get(), product.b, b_.get(), &beta,
                      product.c, c_.get(), product.d, d_.get(), &algorithm, workspace, workspace_bytes,
                      stream);
}
}  // namespace optrush::cublaslt_matmul
