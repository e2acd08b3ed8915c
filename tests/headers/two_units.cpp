// SPDX-License-Identifier: Apache-2.0
// Links two units that include every generic header, and checks that both saw the same library.
int unit_one();
int unit_two();

int main() { return unit_one() == unit_two() ? 0 : 1; }
