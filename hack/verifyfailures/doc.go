// Command verifyfailures holds docs/failures.md, the list of public failure reports of Windows nodes, against the tree:
//
//   - its table has the rows 1 to 68, each once and in order, with a thread, a symptom and what happens here;
//   - the last cell begins with "shown", "partly" or "open"; the first two name tests (`planner.TestX`: the last element of the package's
//     path, a dot, the function) or codes of the preflight (`preflight:Code`), all of which exist, and "open" names none;
//   - a test whose name is TestFailure and two digits is named in the row of that number;
//   - at least 40 rows are shown.
//
// It prints the counts, or all findings and ends with 1. It imports the standard library only.
package main
