#include "worker/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

Json context() {
  return Json::parse(R"({
    "optrush_version": "0.1.0", "host": "h", "os": "Debian", "kernel": "Linux 6.1 x86_64",
    "cpu": {"name": "Test CPU", "cores": 4, "threads": 8, "quota": null, "isa": ["avx2", "avx512f"],
            "cache_bytes": 33554432, "memory_bytes": 17179869184, "governor": "performance", "huge_pages": "madvise",
            "load_average": 0, "busy": 0},
    "gpus": [], "no_cuda": "no NVIDIA driver", "torch": "2.11.0", "torch_found": "2.11.1", "cuda": "13.0", "nccl": "2.28.9",
    "compiler": "GNU 12.2.0", "build_type": "Release", "torch_cpu_capability": "AVX512",
    "malloc": "glibc 2.36", "threads": 1,
    "peak": {"device": "Test CPU", "dtype_flops": {"fp32": 1.79e11, "bf16": 4.204e11, "fp16": 1e9, "fp64": 9.95e10},
             "source": "measured", "mfu_dtype": "bf16", "mfu_denominator": 4.204e11},
    "bandwidth_bytes_per_second": 2.13e10,
    "plugins": [{"name": "lora", "file": "/p/lora.so", "summary": "low-rank adapters", "reason": ""},
                {"name": "cuda_graphs", "file": "/p/g.so", "summary": "graphs", "reason": "needs CUDA: no NVIDIA driver"}],
    "python": {"path": "/v/bin/python", "version": "3.11.7", "torch": "2.11.0", "vl_convert": "1.9.0", "no_compile": ""},
    "warnings": []})");
}

TEST(DoctorPage, ShowsACpu) {
  EXPECT_EQ(doctor_page(context()),
            "            Optimization Rush 0.1.0 on h, Debian, Linux 6.1 x86_64\n"
            "\n"
            "CPU         Test CPU, 4 cores (8 threads), 16.0 GiB memory\n"
            "            avx2 avx512f\n"
            "            last-level cache 32.0 MiB, governor performance, huge pages madvise\n"
            "GPU         not usable: no NVIDIA driver\n"
            "Software    LibTorch 2.11.1 (built for 2.11.0), CUDA 13.0, NCCL 2.28.9, CPU kernels for AVX512\n"
            "            built by GNU 12.2.0, malloc of glibc 2.36, 1 CPU thread\n"
            "Matmul      fp32 179 GFLOP/s, bf16 420 GFLOP/s, fp16 1.00 GFLOP/s, fp64 99.5 GFLOP/s, measured "
            "on Test CPU\n"
            "            MFU divides by 420 GFLOP/s: the measured bf16 peak\n"
            "Memory      21.3 GB/s, measured\n"
            "\n"
            "Plugins     works   lora                      low-rank adapters\n"
            "            no      cuda_graphs               needs CUDA: no NVIDIA driver\n"
            "\n"
            "Python      /v/bin/python, 3.11.7\n"
            "            compile plugin: available\n"
            "            charts: vl-convert 1.9.0\n");
}

TEST(DoctorPage, ShowsAGpu) {
  Json json = context();
  json["no_cuda"] = nullptr;
  json["gpus"] =
      Json::parse(R"([{"name": "NVIDIA H200", "memory_bytes": 150000000000, "used_bytes": 1, "sm": "sm_90",
      "multiprocessors": 132, "driver": "580.65.06", "ecc": true, "clock_mhz": 1500, "max_clock_mhz": 1980,
      "memory_clock_mhz": 3201, "power_watts": 80.5, "power_limit_watts": 700, "temperature": 30, "throttling": [],
      "other_processes": 0}])");
  json["peak"] =
      Json::parse(R"({"device": "NVIDIA H200", "dtype_flops": {"fp32": 5e13, "bf16": 7e14, "fp16": 7e14,
      "fp64": 6e13}, "source": "table", "mfu_dtype": "bf16", "mfu_denominator": 9.89e14})");
  json["peak"]["sustained"] = Json::parse(R"([
      {"dtype": "bf16", "gpu": true, "shape": [32768, 2048, 8192], "flops_per_second": 6.92e14, "seconds": 3.01,
       "watts": 698.2, "sm_clock_mhz": 1605.4, "power_limit_watts": 700, "at_power_cap": 0.9},
      {"dtype": "fp8", "gpu": true, "shape": [8192, 8192, 8192], "flops_per_second": 1.2e15, "seconds": 3,
       "watts": 400, "sm_clock_mhz": null, "power_limit_watts": null, "at_power_cap": 0}])");
  const std::string page = doctor_page(json);
  EXPECT_THAT(page, HasSubstr("bf16 692 TFLOP/s sustained for 3.01 s of 32768 x 2048 x 8192: 698 W of 700 W, "
                              "1605 MHz, at the power cap\n"));
  EXPECT_THAT(page, HasSubstr("fp8 1200 TFLOP/s sustained for 3.00 s of 8192 x 8192 x 8192: 400 W\n"));
  EXPECT_THAT(page,
              HasSubstr("GPU         NVIDIA H200, 140 GiB, sm_90, 132 multiprocessors, driver 580.65.06\n"
                        "              1500 of 1980 MHz, limit 700 W, ECC on\n"));
  EXPECT_THAT(page, HasSubstr("MFU divides by 989 TFLOP/s: the maker's dense bf16 peak"));
  EXPECT_THAT(page, Not(HasSubstr("not usable")));
}

TEST(DoctorPage, MissingPartsAreNamed) {
  Json json = context();
  json["plugins"] = Json::array();
  json["python"] = {
      {"path", ""}, {"version", ""}, {"torch", ""}, {"vl_convert", ""}, {"no_compile", "there is no Python"}};
  json["warnings"] = {"the machine is busy", "the governor"};
  const std::string page = doctor_page(json);
  EXPECT_THAT(page, HasSubstr("Plugins     none found\n"));
  EXPECT_THAT(page, HasSubstr("Python      none\n"));
  EXPECT_THAT(page, HasSubstr("compile plugin: not available, there is no Python\n"));
  EXPECT_THAT(page, HasSubstr("charts: not available, vl-convert-python is not installed"));
  EXPECT_THAT(page, HasSubstr("Warnings    the machine is busy\n            the governor\n"));
}
}  // namespace
}  // namespace optrush
