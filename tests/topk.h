/* topk where two scores nearly tie: which of them is kept is then decided by rounding, and no tolerance of
 * the output covers it. Rows whose K-th and next score lie closer than their rounding may are not judged. */
#ifndef ATTN_TESTS_TOPK_H
#define ATTN_TESTS_TOPK_H

#include "tests/support.h"

#include "tests/attention_case.h"

/* Lets every error pass in the rows of a case (after case_expect) that cannot be judged; returns how many. */
int64_t topk_relax(attention_case *c);

/* Draws the queries of rows that cannot be judged again, until all can be or it was tried 20 times; before
 * case_expect. Of little use where scores do not depend on queries, or cannot differ by more than rounding.
 */
void topk_separate(attention_case *c, test_rng *rng);

#endif
