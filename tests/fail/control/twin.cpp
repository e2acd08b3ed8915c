// SPDX-License-Identifier: Apache-2.0
// A control of the twins: this does not compile as it is, so the unit of all twins has to name it.
int main() { return missing_twin; }
