// SPDX-License-Identifier: Apache-2.0
// A control of the floors: the facade.
#pragma once
