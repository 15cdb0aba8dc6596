#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "optrush/mesh.h"
#include "timeline.h"

namespace optrush::pipeline_parallel {
/// Sizes and type of the tensor at a boundary between stages. All boundaries have the same form.
struct Form {
  std::vector<int64_t> sizes;
  at::ScalarType type = at::kFloat;
};

/// Messages of one rank of a pipeline to and from its neighbours in a step. The messages between two ranks
/// have one order that both know (Timeline::between), so no tags are needed, and two ranks that send to each
/// other at the same time do not wait for each other. One receive is posted ahead of its use.
class Mail {
 public:
  Mail(Group& ranks, const Timeline&, at::Device);

  /// Sends an activation or a gradient to another rank.
  void send(const Message&, const Tensor& tensor, int64_t to);
  /// Waits for the message.
  Tensor receive(const Message&, int64_t from);
  /// Waits for all sends. The next step begins with the first message again.
  void end_step();

  /// The form of a boundary. None before the first message.
  const std::optional<Form>& form() const { return form_; }
  /// Seconds that this host waited so far.
  double waited() const { return waited_; }

 private:
  struct Link {
    std::vector<Message> order;
    size_t next = 0;       ///< the first message that is neither sent nor requested
    bool told = false;     ///< the other rank knows the form
    bool greeted = false;  ///< this rank has received the form from the other rank
  };
  struct Arriving {
    Tensor tensor;
    WorkHandle pending;
  };
  struct Leaving {
    int64_t to;
    size_t number;
    WorkHandle pending;
  };
  using Key = std::pair<int64_t, size_t>;  ///< the other rank, and the message's number

  bool is_mine(const Message&) const;
  static size_t number_of(const Link&, const Message&);
  /// Posts receives until the link's next message is number `end`.
  void ask(int64_t rank, Link&, size_t end);
  void ask_ahead();
  void tell_form(int64_t to, Link&);
  void learn_form(int64_t from, Link&);
  void wait(WorkHandle&);
  /// Waits for all sends to a rank before message `before`. That message has arrived, and the rank had posted
  /// the receives of these sends earlier.
  void end_sends(int64_t to, size_t before);

  Group& ranks_;
  at::Device device_;
  std::optional<Form> form_;
  std::map<int64_t, Link> links_;
  std::map<Key, Arriving> arriving_;
  std::vector<Leaving> leaving_;
  double waited_ = 0;
};
}  // namespace optrush::pipeline_parallel
