import { Dialog } from "../components/Dialog";
import { SignInForm } from "./SignIn";

/** A dialog over the page to renew an expired sign-in without losing unsaved input. */
export default function SignInAgain() {
  return (
    <Dialog open onClose={() => {}} stay title="Your session has ended" description="Sign in to continue where you left off.">
      <SignInForm />
    </Dialog>
  );
}
