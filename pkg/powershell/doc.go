// Package powershell quotes values and encodes scripts. It is the only place in the product where a script string may be built;
// everything else passes arguments as words and data on standard input.
//
// Both functions are pure. Quote makes a value one literal, whatever is in it; Encode makes a script one plain word, so that
// neither cmd.exe nor PowerShell as the default shell, nor a code page, can change it. The package imports the standard library
// only.
package powershell
