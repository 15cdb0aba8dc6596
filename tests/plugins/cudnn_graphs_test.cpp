// Graphs of attention, chosen and compiled by the real cuDNN for a card that is described and not present. No
// kernel runs, so no value is computed.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "flash_attention/cudnn/graph.h"
#include "optrush/json.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
using flash::cudnn::Card;
using flash::cudnn::Form;
using flash::cudnn::Graph;
using flash::cudnn::Strides;

struct Described {
  const char* architecture;
  Card card;
};

/// What cuDNN asks of a card.
Described described_card(const char* architecture, int processors, int shared_memory, int l2) {
  const int version = std::stoi(std::string(architecture).substr(3)) * 10;
  return {architecture,
          {Json{{"cudaDeviceId", 0},
                {"deviceName", architecture},
                {"deviceVer", version},
                {"driverVer", 13020},
                {"isTccDriver", 0},
                {"l2CacheSize", l2},
                {"maxBlockSize", {1024, 1024, 64}},
                {"maxCtasPerSM", 32},
                {"maxGridSize", {2147483647, 65535, 65535}},
                {"maxRegistersPerSM", 65536},
                {"maxSharedMemoryPerBlock", 49152},
                {"maxSharedMemoryPerBlockOptin", shared_memory},
                {"maxThreadsPerBlock", 1024},
                {"maxThreadsPerSM", 2048},
                {"memClockRateKHz", 3201000},
                {"multiProcessorCount", processors},
                {"oversizedSharedMemoryPerBlock", 0},
                {"pciDeviceId", 0},
                {"regsPerBlock", 65536},
                {"reservedSharedMemoryPerBlock", 1024},
                {"smClockRateKHz", 1980000},
                {"supportCoopLaunch", 1},
                {"totalGlobalMem", 80000000000},
                {"warpSize", 32}}
               .dump()}};
}
Described hopper() { return described_card("sm_90", 132, 232448, 62914560); }
Described blackwell() { return described_card("sm_100", 148, 232448, 132644864); }
Described ampere() { return described_card("sm_80", 108, 166912, 41943040); }

/// Rows of tensors in the order (B, S, H, K), as the plugin passes them.
Form form_of_rows(int64_t sequences, int64_t heads, int64_t groups, int64_t positions, int64_t width) {
  Form form{.sequences = sequences,
            .heads = heads,
            .groups = groups,
            .queries = positions,
            .keys = positions,
            .width = width,
            .value_width = width,
            .scale = 0.125};
  const auto of = [&](int64_t all) { return Strides{positions * all * width, width, all * width}; };
  form.strides = {of(heads), of(groups), of(groups), of(heads), of(heads)};
  return form;
}

/// Documents that fill four rows of `positions`.
Form form_of_documents(int64_t count, int64_t longest, int64_t positions) {
  Form form = form_of_rows(count, 32, 8, longest, 64);
  form.positions = 4 * positions;
  return form;
}

class CudnnGraphs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen(std::getenv("OPTRUSH_CUDNN"), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  }
  /// Bytes of the workspace of the backward.
  static int64_t compiled(Form form, const Described& on) {
    form.backward = false;
    const Graph forward(form, on.architecture, on.card);
    EXPECT_LT(forward.workspace_bytes(), 1 << 20);
    form.backward = true;
    return Graph(form, on.architecture, on.card).workspace_bytes();
  }
};

/// The backward adds dq in fp32. With shared keys, each head has gradients of them in the type of the inputs.
int64_t workspace_on_hopper(const Form& form) {
  const int64_t positions = form.sequences * form.heads * form.queries;
  const int64_t of_heads = form.heads == form.groups ? 0 : 4 * positions * form.width;
  return 4 * positions * form.width + of_heads + 4 * positions + 256;
}

TEST_F(CudnnGraphs, SlidingWindowsHaveKernels) {
  for (Form form : {form_of_rows(4, 32, 8, 4096, 64), form_of_rows(2, 8, 8, 2048, 128),
                    form_of_rows(4, 8, 4, 4096, 256)}) {
    SCOPED_TRACE(form.width);
    form.window = 512;
    EXPECT_EQ(compiled(form, hopper()), workspace_on_hopper(form));
  }
  Form form = form_of_rows(4, 32, 8, 4096, 64);
  form.window = 512;
  EXPECT_GT(compiled(form, ampere()), 0);
  EXPECT_GT(compiled(form, blackwell()), 0);
}

TEST_F(CudnnGraphs, AWindowWithoutCausalityInFp16HasKernels) {
  Form form = form_of_rows(2, 4, 4, 200, 32);
  form.window = 64;
  form.causal = false;
  form.type = at::kHalf;
  EXPECT_EQ(compiled(form, hopper()), workspace_on_hopper(form));
}

TEST_F(CudnnGraphs, PackedDocumentsHaveKernelsOnHopperAndBlackwell) {
  Form form = form_of_documents(16, 4096, 4096);
  EXPECT_GT(compiled(form, blackwell()), 0);
  for (const int64_t window : {0, 512}) {
    form.window = window;
    EXPECT_GT(compiled(form, hopper()), 0) << window;
  }
}

/// As in DeepSeek V3.
TEST_F(CudnnGraphs, ValuesMayHaveAnotherWidthThanKeys) {
  Form form = form_of_rows(2, 16, 16, 2048, 192);
  form.value_width = 128;
  const auto of = [&](int64_t width) { return Strides{2048 * 16 * width, width, 16 * width}; };
  form.strides = {of(192), of(192), of(128), of(128), of(128)};
  for (const auto& on : {hopper(), blackwell()}) EXPECT_GT(compiled(form, on), 0) << on.architecture;
}

/// As in Gemma 2. The mask follows the cap.
TEST_F(CudnnGraphs, SoftCapsHaveKernelsOnHopperAndBlackwell) {
  for (const int64_t window : {0, 512}) {
    Form form = form_of_rows(2, 8, 4, 1024, 128);
    form.soft_cap = 50;
    form.window = window;
    EXPECT_EQ(compiled(form, hopper()), workspace_on_hopper(form)) << window;
    if (window != 0) {
      EXPECT_GT(compiled(form, blackwell()), 0);
    }
  }
}

/// The operands of joined projections are parts of wider rows.
TEST_F(CudnnGraphs, OperandsMayBePartsOfWiderTensors) {
  Form form = form_of_rows(4, 32, 8, 1024, 64);
  form.window = 256;
  for (Strides& strides : form.strides) {
    strides.position = 48 * 64;
    strides.sequence = 1024 * strides.position;
  }
  EXPECT_EQ(compiled(form, hopper()), workspace_on_hopper(form));
}

TEST_F(CudnnGraphs, AFormWithoutAKernelIsRefusedWithTheReason) {
  const auto refusal = [](Form form) {
    form.backward = true;
    const Described on = ampere();
    return error_of([&] { Graph(form, on.architecture, on.card); });
  };
  Form wide = form_of_rows(4, 8, 2, 1024, 256);
  wide.window = 256;
  EXPECT_THAT(refusal(wide), is_error("internal", "less than or equal to 128", "kernel = \"flash\""));
  Form capped = form_of_rows(2, 8, 4, 1024, 128);
  capped.soft_cap = 50;
  EXPECT_THAT(refusal(capped), is_error("internal", "cuDNN has no kernel", "kernel = \"flash\""));
  EXPECT_THAT(refusal(form_of_documents(16, 1024, 4096)), is_error("internal", "SM8X", "kernel = \"flash\""));
}
}  // namespace
}  // namespace optrush::testing
