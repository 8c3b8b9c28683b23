// Package callpath holds the steps of the call path, one file each. They see one
// parsed call whose tool is resolved, never raw bytes. In the order in which a call
// passes them:
//
//	Record    says who called what and how it ended, also when it was refused
//	Recover   makes a panic one failed call
//	Cap       bounds the bytes of arguments, and behind Admit those of the result: what is too
//	          large has failed, and is not charged
//	Inject    fills in the arguments that the platform knows and the caller does not
//	Validate  applies defaults and checks the arguments
//	Admit     takes permits, money and the idempotency key, all or none, and settles at the end
//	Intend    puts a write on the record before it runs
//	Deadline  bounds the time, whether or not the tool minds it
package callpath
