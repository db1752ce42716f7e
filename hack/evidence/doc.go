// Command evidence writes the README's table of what has been shown where: which step ran on a Windows Server and under Wine, by the reports
// in test/windows/results and by tags, and which tests hold it on the modelled Windows, by tags alone.
//
// A tag is a line in the comment of a test function, with one platform (wine or fake) and one or more subjects:
//
//	//evidence:fake install-files start-service
//
// With --check nothing is written, and a README that differs is an error.
package main
