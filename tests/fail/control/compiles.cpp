// SPDX-License-Identifier: Apache-2.0
// A control of the compile-fail check: this compiles, so the check has to complain.
// expect: anything
int main() { return 0; }
