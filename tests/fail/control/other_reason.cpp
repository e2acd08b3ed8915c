// SPDX-License-Identifier: Apache-2.0
// A control of the compile-fail check: this fails, but not with the message that is asked for.
// expect: a sentence that no compiler says
int main() { return undeclared; }
