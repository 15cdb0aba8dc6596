"""Optimization Rush: measures what each training optimization really buys. The programs are in bin/, started by
__main__."""
