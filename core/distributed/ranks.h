#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace optrush {
class PlannedMail;

/// The place of this process among the processes that train one model, and the address where they meet.
struct Ranks {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< within this machine
  std::string host;                        ///< address of the store, which rank 0 serves
  uint16_t port = 0;
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  ///< for a collective, and for joining
  std::string gpu;      ///< its GPU, with a name that is equal on every rank; "": no GPU
  int64_t sharing = 1;  ///< the largest number of ranks that train on one GPU
  /// True in a plan: one process computes the part of one rank, and nothing is connected or sent.
  bool alone = false;
  /// In a plan of several ranks, the messages between them; null: nothing arrives
  std::shared_ptr<PlannedMail> mail;

  /// Reads torchrun's variables (RANK, WORLD_SIZE, ...). Throws an Error unless WORLD_SIZE is `size`.
  static Ranks from_environment(int64_t size);
  /// Sets host and port from "HOST:PORT"; throws an Error if the text has another form.
  void meet_at(const std::string& store);
  /// Rank `rank` of `size`, for a plan.
  static Ranks planned(int64_t rank, int64_t size, std::shared_ptr<PlannedMail> mail = nullptr);
};
}  // namespace optrush
