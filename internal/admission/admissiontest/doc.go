// Package admissiontest checks implementations of admission.Admitter and ledger.Ledger.
package admissiontest
