import { Dialog } from "../components/Dialog";
import { SignInForm } from "./SignIn";

/** A dialog over the page that renews an expired sign-in, so that unsaved input is not lost. */
export default function SignInAgain() {
  return (
    <Dialog open onClose={() => {}} stay title="Your session has ended" description="Sign in to continue where you left off.">
      <SignInForm />
    </Dialog>
  );
}
