// Kinds of work by real names of kernels and operators, and sums of made-up traces, exact to the microsecond.
#include "launch/run/traced_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(KindOfWork, OfKernelsOfAGpu) {
  const std::map<std::string_view, WorkKind> kinds = {
      {"nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT", WorkKind::product},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", WorkKind::product},
      {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", WorkKind::product},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>(...)",
       WorkKind::product},
      {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(...)",
       WorkKind::product},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(...)",
       WorkKind::product},
      {"triton_tem_fused_mm_3", WorkKind::product},
      {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, "
       "false, cutlass::bfloat16_t>>(pytorch_flash::Flash_fwd_params)",
       WorkKind::attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_"
       "0",
       WorkKind::attention},
      {"fmha_cutlassB_bf16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel)",
       WorkKind::attention},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>(...)",
       WorkKind::attention},
      {"triton_red_fused__log_softmax__to_copy_nll_loss_forward_2", WorkKind::loss},
      {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, "
       "long>(...)",
       WorkKind::loss},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
       "std::array<char*, 3ul>>(int, ...)",
       WorkKind::elementwise},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(...)",
       WorkKind::elementwise},
      {"triton_poi_fused_mul_silu_5", WorkKind::elementwise},
      {"rms_norm_backward_kernel", WorkKind::elementwise},
      {"Memcpy HtoD (Pinned -> Device)", WorkKind::elementwise},
      {"Memset (Device)", WorkKind::elementwise},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
       "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
       "namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>>(...)",
       WorkKind::optimizer},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       WorkKind::communication}};
  for (const auto& [name, work] : kinds) EXPECT_EQ(kind_of_work(name), work) << name;
}

TEST(KindOfWork, OfOperators) {
  const std::map<std::string_view, WorkKind> kinds = {
      {"aten::mm", WorkKind::product},
      {"aten::addmm_", WorkKind::product},
      {"aten::_scaled_mm", WorkKind::product},
      {"aten::_grouped_mm", WorkKind::product},
      {"mkldnn::_linear_pointwise", WorkKind::product},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", WorkKind::attention},
      {"aten::_softmax", WorkKind::attention},
      {"optrush::kernel::attention_backward", WorkKind::attention},
      {"aten::_log_softmax_backward_data", WorkKind::loss},
      {"aten::nll_loss_forward", WorkKind::loss},
      {"optrush::kernel::cross_entropy", WorkKind::loss},
      {"aten::_fused_adamw_", WorkKind::optimizer},
      {"optrush::kernel::master_adamw", WorkKind::optimizer},
      {"gloo:all_reduce", WorkKind::communication},
      {"c10d::allreduce_", WorkKind::communication},
      {"aten::mul", WorkKind::elementwise},
      {"aten::copy_", WorkKind::elementwise},
      {"aten::embedding_dense_backward", WorkKind::elementwise},
      {"optrush::kernel::swiglu_backward", WorkKind::elementwise},
      {"## Call CompiledFxGraph fabc ##", WorkKind::elementwise},
      {"aten::view", WorkKind::none},
      {"aten::transpose", WorkKind::none},
      {"aten::matmul", WorkKind::none},
      {"autograd::engine::evaluate_function: LogSoftmaxBackward0", WorkKind::none},
      {"MmBackward0", WorkKind::none},
      {"Torch-Compiled Region: 0/0", WorkKind::none}};
  for (const auto& [name, work] : kinds) EXPECT_EQ(kind_of_work(name), work) << name;
}

TEST(KindOfWork, DependsOnTheCaller) {
  EXPECT_EQ(kind_of_work("aten::bmm", WorkKind::attention), WorkKind::attention);
  EXPECT_EQ(kind_of_work("aten::mul", WorkKind::loss), WorkKind::loss);
  EXPECT_EQ(kind_of_work("aten::mm", WorkKind::loss), WorkKind::product);
  EXPECT_EQ(kind_of_work("aten::empty", WorkKind::product), WorkKind::product);
  EXPECT_EQ(kind_of_work("aten::mm", WorkKind::elementwise), WorkKind::product);
  EXPECT_EQ(kind_of_work("aten::view", WorkKind::elementwise), WorkKind::elementwise);
  EXPECT_EQ(kind_of_work("aten::view", WorkKind::none), WorkKind::none);
  EXPECT_EQ(kind_of_work("gloo:all_reduce", WorkKind::optimizer), WorkKind::communication);
}

/// An event of a trace, with times in microseconds.
Json event(const char* category, const char* name, double begin, double end, int thread = 1,
           int correlation = -1) {
  Json made = {{"ph", "X"},     {"cat", category}, {"name", name},       {"pid", 7},
               {"tid", thread}, {"ts", begin},     {"dur", end - begin}, {"args", {{"External id", 3}}}};
  if (correlation >= 0) made["args"]["correlation"] = correlation;
  return made;
}
std::string trace_of(std::vector<Json> events) {
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", 7}, {"tid", 0}, {"args", {{"name", "a \"b\""}}}});
  return Json{{"schemaVersion", 1}, {"traceEvents", events}, {"traceName", "trace.json"}}.dump(1);
}
/// Microseconds: product, attention, loss, elementwise, optimizer, communication, gaps.
std::vector<double> sums(const std::vector<Json>& events) {
  std::vector<double> all;
  for (const auto& [name, seconds] : traced_step(trace_of(events)))
    all.push_back(std::round(*seconds * 1e9) / 1e3);
  return all;
}

TEST(TracedStep, AnOperatorHasTheTimeThatItTakesItself) {
  EXPECT_THAT(
      sums({event("user_annotation", "forward", 100, 200),
            event("cpu_op", "aten::linear", 110, 150),  // computes nothing itself: 10 of gaps
            event("cpu_op", "aten::mm", 115, 145),
            event("cpu_op", "aten::resize_", 120, 122),  // of the product
            event("cpu_op", "aten::mul", 150, 165), event("cpu_op", "aten::cross_entropy_loss", 170, 190),
            event("cpu_op", "aten::log_softmax", 172, 180), event("cpu_op", "aten::mul", 182, 184),
            event("user_annotation", "optimizer", 200, 230), event("cpu_op", "aten::mm", 205, 210),
            event("cpu_op", "aten::view", 210, 212)}),
      ElementsAre(30, 0, 20, 15, 7, 0, 58));
}

TEST(TracedStep, LeavesOutWhatIsOutsideOfThePhases) {
  EXPECT_THAT(sums({event("cpu_op", "aten::mm", 0, 90), event("user_annotation", "forward", 100, 120),
                    event("cpu_op", "aten::mm", 100, 115), event("user_annotation", "bookkeeping", 120, 150),
                    event("cpu_op", "aten::linalg_vector_norm", 122, 140),
                    event("user_annotation", "communication", 150, 160),
                    event("cpu_op", "gloo:all_reduce", 155, 170, /*thread=*/2)}),
              ElementsAre(15, 0, 0, 0, 0, 10, 5));
}

/// The sum stays the sum of the phases.
TEST(TracedStep, OperatorsOfAnotherThreadThatBeginOrEndBetweenPhasesAddNoTime) {
  EXPECT_THAT(
      sums({event("user_annotation", "forward", 0, 20), event("cpu_op", "aten::view", 15, 27, /*thread=*/3),
            event("cpu_op", "gloo:all_gather", 22, 35, /*thread=*/2),
            event("user_annotation", "backward", 30, 60), event("cpu_op", "aten::mm", 40, 50)}),
      ElementsAre(10, 0, 0, 0, 0, 0, 40));
}

TEST(TracedStep, OfOverlappingThreadsTheFirstKindCounts) {
  EXPECT_THAT(sums({event("user_annotation", "backward", 0, 100), event("cpu_op", "aten::mul", 10, 60, 1),
                    event("cpu_op", "aten::mm", 40, 80, 2)}),
              ElementsAre(40, 0, 0, 30, 0, 0, 30));
}

TEST(TracedStep, OfAGpuIsFromItsFirstKernelToItsLast) {
  const auto launch = [](double time, int correlation, int thread = 1) {
    return event("cuda_runtime", "cudaLaunchKernel", time, time + 1, thread, correlation);
  };
  const auto kernel = [](const char* name, double begin, double end, int correlation, int stream = 7) {
    return event("kernel", name, begin, end, stream, correlation);
  };
  const char* const generic = "void at::native::vectorized_elementwise_kernel<4, f>(...)";
  EXPECT_THAT(
      sums({event("user_annotation", "forward", 0, 100), event("user_annotation", "backward", 100, 150),
            event("user_annotation", "bookkeeping", 150, 160),
            event("user_annotation", "optimizer", 160, 200),
            event("gpu_user_annotation", "forward", 1000, 1200),
            event("cuda_runtime", "cudaMemcpyAsync", 5, 6, 1, 1),
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1000, 1010, 7, 1),
            event("cpu_op", "aten::mm", 10, 20), launch(12, 2), kernel("nvjet_tst_128x256", 1020, 1100, 2),
            // A generic kernel belongs to the operator that launched it.
            event("cpu_op", "aten::_log_softmax", 30, 40), launch(32, 3), kernel(generic, 1100, 1130, 3),
            // In the thread of autograd.
            event("cpu_op", "aten::mul", 110, 120, 2), launch(112, 4, 2), kernel(generic, 1130, 1150, 4),
            launch(121, 5, 2), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1140, 1200, 5, 20),
            // The gradient norm is not part of the step.
            event("cpu_op", "aten::linalg_vector_norm", 152, 155), launch(153, 6),
            kernel(generic, 1200, 1230, 6), event("cpu_op", "aten::_foreach_mul_", 165, 170), launch(166, 7),
            kernel(generic, 1235, 1265, 7)}),
      ElementsAre(80, 0, 30, 10 + 20, 30, 50, 10 + 5));
}

TEST(TracedStep, OfAProgramWithoutPhasesIsFromTheFirstOperatorToTheLast) {
  EXPECT_THAT(sums({event("cpu_op", "aten::mm", 10, 20), event("cpu_op", "aten::add", 30, 35)}),
              ElementsAre(10, 0, 0, 5, 0, 0, 10));
}

TEST(TracedStep, AnUnreadableTraceIsANote) {
  const TemporaryFolder folder;
  RunResult result;
  add_traced_step(result, folder.path());
  EXPECT_TRUE(result.traced.empty() && result.notes.empty());
  write_file(folder / "trace.json", R"({"traceEvents": [{"ph": "X", )");
  add_traced_step(result, folder.path());
  EXPECT_TRUE(result.traced.empty());
  EXPECT_THAT(result.notes, ElementsAre(HasSubstr("its trace cannot be summed")));
  EXPECT_THROW(traced_step("no JSON"), Error);
}
}  // namespace
}  // namespace optrush
