#pragma once
namespace optrush {
/// Notices whether anything draws from a generator of LibTorch while it lives, on any thread.
class DrawObserver {
 public:
  DrawObserver();
  ~DrawObserver();
  DrawObserver(const DrawObserver&) = delete;
  DrawObserver& operator=(const DrawObserver&) = delete;
  bool drew() const;

 private:
  unsigned long handle_;
};
}  // namespace optrush
