"""A program that cannot be changed: it prints nanoGPT's lines, and trains until it is ended."""
import itertools
import time

print("number of parameters: 0.01M")
for number in itertools.count():
    time.sleep(0.002)
    print(f"iter {number}: loss {4 - 0.01 * number:.4f}, time {2 + number / 100:.2f}ms, mfu -100.00%")
