/* redelta/version.h - version of the interface. SPDX-License-Identifier: Apache-2.0 */
#ifndef REDELTA_VERSION_H
#define REDELTA_VERSION_H

#define RD_VERSION_MAJOR  0
#define RD_VERSION_MINOR  2
#define RD_VERSION_PATCH  0
#define RD_VERSION_STRING "0.2.0-dev"

#endif
