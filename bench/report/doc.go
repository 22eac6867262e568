// Package report turns the results of a comparison into tables, charts, a file of figures and one of all runs.
//
// # Nouns
//
//   - arm: one server of the comparison; the one named "rankd" is compared with the best of those whose names begin with "py".
//   - work directory: results/<arm>/*.json as "rankd bench load" writes them, results/capacity*.json, and results/env.txt, a
//     description of the machine that is copied into the report.
//   - workload: what the examples of a request have to do with each other, see package exam.
//   - point: the repeats of one load on one arm; its figures are their medians.
//   - runs.json: every run without what no page shows; it stands in for the results where these are not kept.
//   - figures: what an arm did at one number of examples a request, in the form of summary.json.
//
// # Invariants
//
//	I1  Nothing is reported of an arm with a wrong reply but the fact.
//	I2  A throughput within a latency comes from a point of the closed loop at which at most one request in a thousand failed or had
//	    no reply.
//	I3  Every table and chart of results from the simulated accelerator says so, and figures from runs in which the client was the
//	    limit are marked with an asterisk.
//	I4  Results of several workloads are not put on one page, and titles name the workload unless examples are independent. Targets and
//	    published figures are about independent examples and stand beside no others.
//	I5  The page and every chart can be made anew from runs.json, suite.json and env.txt, which are published with them: the same
//	    bytes as from the results themselves.
//
// # Concurrency
//
// None.
//
// # Failure
//
// A file that cannot be read is an error that names it; files of other kinds are passed over.
package report
